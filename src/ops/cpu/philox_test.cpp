#include "ops/cpu/philox.h"

#include <gtest/gtest.h>

namespace sextant::cpu {
namespace {

TEST(Philox, FourAtATimeAreTheFunctionOfBase) {
  const uint32_t words[] = {0, 1, 7, 0x80000000, 0xfffffffc, 0xffffffff, 0x243f6a88};
  for (const uint32_t first : words)
    for (const uint32_t second : words)
      for (const PhiloxKey& key : {PhiloxKey{0, 0}, PhiloxKey{0xffffffff, 0xa4093822}}) {
        uint32_t got[kPhiloxWords];
        philox_four(got, first, second, ~first, key);
        for (uint32_t i = 0; i < kPhiloxWords; ++i)
          ASSERT_EQ(got[i], philox({first, second + i / 4, ~first, 0}, key)[i % 4])
              << first << " " << second << " word " << i;
      }
}

}  // namespace
}  // namespace sextant::cpu
