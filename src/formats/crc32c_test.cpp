#include "formats/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace sextant {
namespace {

// Known answers of RFC 3720, appendix B.4, and of the usual check string.
TEST(Crc32c, GivesTheKnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
}

}  // namespace
}  // namespace sextant
