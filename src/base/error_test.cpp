#include "base/error.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(Error, FaultsHaveTheExitCodesOfTheContract) {
  EXPECT_EQ(exit_code(Fault::Internal), 1);
  EXPECT_EQ(exit_code(Fault::Failure), 1);
  EXPECT_EQ(exit_code(Fault::Usage), 2);
  EXPECT_EQ(exit_code(Fault::Config), 2);
  EXPECT_EQ(exit_code(Fault::Memory), 3);
  EXPECT_EQ(exit_code(Fault::Data), 4);
  EXPECT_EQ(exit_code(Fault::Peer), 5);
}

TEST(Error, ACheckThatHoldsDoesNotBuildItsText) {
  int built = 0;
  const auto part = [&] { return ++built; };
  SXT_CHECK(true, Usage, "part ", part());
  EXPECT_EQ(built, 0);
}

TEST(Error, ACheckThatFailsThrowsItsParts) {
  const int rows = -3;
  EXPECT_ERROR(SXT_CHECK(rows > 0, Memory, "rows=", rows, ", must be positive"), Memory,
               "rows=-3, must be positive");
  EXPECT_ERROR(SXT_FAIL(Peer, "rank ", 2, " hung"), Peer, "rank 2 hung");
}

TEST(Error, ConcatWritesEachPartAsItsStreamDoes) {
  EXPECT_EQ(concat("a", 1, 'b', 2.5, std::string("c")), "a1b2.5c");
}

}  // namespace
}  // namespace sextant
