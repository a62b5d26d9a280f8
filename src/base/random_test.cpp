#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "support/expect_error.h"

namespace sextant {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, ANumberIsNamedBySeedNameElementAndPurpose) {
  const Random a(1, "layers.0.weight");
  EXPECT_EQ(a.bits(77, 2), Random(1, "layers.0.weight").bits(77, 2));
  std::set<uint32_t> seen;
  for (uint64_t seed : {1, 2})
    for (const char* name : {"a", "b"})
      for (uint64_t element : {0, 1, 4, 5})
        for (uint32_t purpose : {0, 1}) seen.insert(Random(seed, name).bits(element, purpose));
  EXPECT_EQ(seen.size(), 32u);
}

TEST(Random, ElementsBeyondThirtyTwoBitsAreTheirOwn) {
  const Random random(0, "x");
  EXPECT_NE(random.bits(5), random.bits(5 + (uint64_t{1} << 34)));
}

TEST(Random, UniformsLieInsideTheOpenIntervalAndFillIt) {
  const Random random(3, "uniform");
  constexpr int kCount = 1 << 16;
  std::vector<int> bins(16);
  double sum = 0;
  for (int i = 0; i < kCount; ++i) {
    const float u = random.uniform(static_cast<uint64_t>(i));
    ASSERT_GT(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    // u is (n + 0.5) / 2^23, exact in f32.
    ASSERT_EQ(std::fmod(u * 0x1p24, 2.0), 1.0);
    sum += u;
    ++bins[static_cast<size_t>(u * 16)];
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  double chi_square = 0;
  for (const int bin : bins) chi_square += std::pow(bin - kCount / 16.0, 2) / (kCount / 16.0);
  EXPECT_LT(chi_square, 45);  // 15 degrees of freedom, beyond 1 in 10,000
}

TEST(Random, NormalsHaveTheMomentsOfTheNormalDistribution) {
  const Random random(4, "normal");
  constexpr int kCount = 1 << 16;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, last = 0;
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal(static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += x * last;
    beyond_two += std::abs(x) > 2;
    last = x;
  }
  const double sigma = 1 / std::sqrt(double{kCount});
  EXPECT_NEAR(sum / kCount, 0, 5 * sigma);
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0) * sigma);
  EXPECT_NEAR(fourth / kCount, 3, 5 * std::sqrt(96.0) * sigma);
  EXPECT_NEAR(neighbours / kCount, 0, 5 * sigma);
  EXPECT_NEAR(beyond_two / double{kCount}, 0.0455, 5 * 0.21 * sigma);
}

TEST(Random, FourNormalsAreTheFourElementsOfTheirBlock) {
  const Random random(5, "block");
  const std::array<double, 4> four = random.normals(9, 1);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(four[i], random.normal(36 + i, 1));
}

TEST(Random, BelowIsInRangeAndEven) {
  const Random random(6, "below");
  std::vector<int> counts(7);
  for (uint64_t i = 0; i < 70000; ++i) ++counts.at(random.below(7, i));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * 93);
  EXPECT_EQ(random.below(1, 3), 0u);
  // Three quarters of 2^64, where multiply-shift without rejection is far from even.
  const uint64_t bound = uint64_t{3} << 62;
  int low = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const uint64_t draw = random.below(bound, i);
    ASSERT_LT(draw, bound);
    low += draw < bound / 3;
  }
  EXPECT_NEAR(low, 3333, 5 * 47);
  EXPECT_ERROR(random.below(0, 0), Internal, "bound is 0");
}

TEST(StableHash, TellsNamesApartAndStaysAsItIs) {
  EXPECT_NE(stable_hash("layers.1.weight"), stable_hash("layers.2.weight"));
  EXPECT_NE(stable_hash(""), stable_hash("a"));
  // Checkpoints and data order rest on these bits.
  EXPECT_EQ(stable_hash(""), 0xEFD01F60BA992926ULL);
}

}  // namespace
}  // namespace sextant
