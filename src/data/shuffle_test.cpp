#include "data/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace sextant {
namespace {

TEST(Shuffle, IsAPermutationForEverySize) {
  for (int64_t count = 1; count <= 600; ++count) {
    std::vector<bool> seen(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = shuffled(i, count, 42, count % 3);
      ASSERT_GE(place, 0);
      ASSERT_LT(place, count);
      ASSERT_FALSE(seen[static_cast<size_t>(place)]) << count << " " << i;
      seen[static_cast<size_t>(place)] = true;
    }
  }
}

TEST(Shuffle, IsAPermutationAroundPowersOfTwoAndFour) {
  for (const int64_t count : {4095, 4096, 4097, 65535, 65537}) {
    std::vector<bool> seen(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) seen[static_cast<size_t>(shuffled(i, count, 7, 1))] = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), count);
  }
}

TEST(Shuffle, OrderDependsOnSeedAndEpoch) {
  const auto order = [](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < 100; ++i) out.push_back(shuffled(i, 100, seed, epoch));
    return out;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_NE(order(1, 0), order(uint64_t{1} << 32 | 1, 0));
}

// Neighbours are separated: the mean distance in a random order is a third of the size.
TEST(Shuffle, LooksRandom) {
  constexpr int64_t kCount = 30000;
  double distance = 0;
  for (int64_t i = 0; i + 1 < kCount; ++i)
    distance +=
        static_cast<double>(std::abs(shuffled(i, kCount, 3, 0) - shuffled(i + 1, kCount, 3, 0)));
  EXPECT_NEAR(distance / kCount / kCount, 1.0 / 3, 0.01);
}

TEST(Shuffle, WorksForHugeCounts) {
  const int64_t count = (int64_t{1} << 40) + 12345;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t place = shuffled(i, count, 9, 2);
    EXPECT_GE(place, 0);
    EXPECT_LT(place, count);
  }
}

}  // namespace
}  // namespace sextant
