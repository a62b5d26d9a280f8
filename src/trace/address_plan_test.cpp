#include "trace/address_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/synthetic_step.h"

namespace sextant {
namespace {

// A generator of our own: the same numbers with every standard library.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2862933555777941757ull + 3037000493ull) {}
  int64_t up_to(int64_t most) {  // 0 to most
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(most + 1));
  }

 private:
  uint64_t state_;
};

void sort_by_begin(std::vector<Lifetime>& lifetimes) {
  std::stable_sort(lifetimes.begin(), lifetimes.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; });
}

// Intervals without any structure, many at the same event.
std::vector<Lifetime> random_lifetimes(uint64_t seed) {
  Numbers numbers(seed);
  const int64_t count = numbers.up_to(600), events = 1 + numbers.up_to(400);
  const int64_t longest = 1 + numbers.up_to(events), largest = 1 + numbers.up_to(10000);
  std::vector<Lifetime> lifetimes;
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = static_cast<int32_t>(numbers.up_to(events));
    const auto length = static_cast<int32_t>(1 + numbers.up_to(longest));
    lifetimes.push_back({64 * numbers.up_to(largest), begin, begin + length});
  }
  sort_by_begin(lifetimes);
  return lifetimes;
}

// The definition, word for word.
bool overlaps_nowhere(const std::vector<Lifetime>& lifetimes, const AddressPlan& plan) {
  for (size_t a = 0; a < lifetimes.size(); ++a) {
    const Lifetime& x = lifetimes[a];
    if (plan.offsets[a] < 0 || plan.offsets[a] + x.bytes > plan.high_water) return false;
    for (size_t b = 0; b < a; ++b) {
      const Lifetime& y = lifetimes[b];
      const bool in_time = x.begin < y.end && y.begin < x.end;
      const bool in_space = plan.offsets[a] < plan.offsets[b] + y.bytes &&
                            plan.offsets[b] < plan.offsets[a] + x.bytes;
      if (in_time && in_space && x.bytes > 0 && y.bytes > 0) return false;
    }
  }
  return true;
}

int64_t peak_by_definition(const std::vector<Lifetime>& lifetimes) {
  int64_t peak = 0;
  for (const Lifetime& at : lifetimes) {
    int64_t alive = 0;
    for (const Lifetime& other : lifetimes)
      if (other.begin <= at.begin && at.begin < other.end) alive += other.bytes;
    peak = std::max(peak, alive);
  }
  return peak;
}

// Thousandths of the peak that the plan of a step needs.
int64_t thousandths(const SyntheticStep& step) {
  const AddressPlan plan = plan_addresses(step.lifetimes);
  EXPECT_TRUE(is_sound(step.lifetimes, plan)) << step.name;
  return (plan.high_water * 1000 - 1) / peak_bytes(step.lifetimes) + 1;
}

TEST(AddressPlanTest, RandomLifetimesNeverOverlap) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed);
    const AddressPlan plan = plan_addresses(lifetimes);
    ASSERT_EQ(plan.offsets.size(), lifetimes.size());
    EXPECT_TRUE(overlaps_nowhere(lifetimes, plan)) << seed;
    EXPECT_TRUE(is_sound(lifetimes, plan)) << seed;
    EXPECT_GE(plan.high_water, peak_bytes(lifetimes)) << seed;
    EXPECT_LE(plan.high_water, 3 * peak_bytes(lifetimes)) << seed;
  }
}

TEST(AddressPlanTest, PeakIsTheMostAliveAtOnce) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed);
    EXPECT_EQ(peak_bytes(lifetimes), peak_by_definition(lifetimes)) << seed;
  }
}

TEST(AddressPlanTest, HighWaterIsTheFirstByteBehindAll) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed);
    const AddressPlan plan = plan_addresses(lifetimes);
    int64_t highest = 0;
    for (size_t i = 0; i < lifetimes.size(); ++i)
      if (lifetimes[i].bytes > 0) highest = std::max(highest, plan.offsets[i] + lifetimes[i].bytes);
    EXPECT_EQ(plan.high_water, highest) << seed;
  }
}

TEST(AddressPlanTest, OffsetsAreAlignedAsSizesAre) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (const int64_t offset : plan_addresses(random_lifetimes(seed)).offsets)
      ASSERT_EQ(offset % 64, 0) << seed;
    for (const int64_t offset : plan_addresses(synthetic_step(seed).lifetimes).offsets)
      ASSERT_EQ(offset % 64, 0) << seed;
  }
}

// Few steps have no plan near their peak: a gathered embedding that is as large as what a whole
// micro-batch keeps, for one.
TEST(AddressPlanTest, TrainingStepsNeedHardlyMoreThanTheirPeak) {
  constexpr uint64_t kSteps = 240;
  int above = 0;
  for (uint64_t seed = 0; seed < kSteps; ++seed) {
    const SyntheticStep step = synthetic_step(seed);
    const int64_t needed = thousandths(step);
    above += needed > 1030 ? 1 : 0;
    EXPECT_LE(needed, 1060) << step.name << ", seed " << seed;
  }
  EXPECT_LE(above, 2);
}

TEST(AddressPlanTest, LongStepsNeedHardlyMoreThanTheirPeak) {
  for (uint64_t seed = 0; seed < 6; ++seed) {  // one of each schedule
    const SyntheticStep step = synthetic_step(seed, 12, 40);
    EXPECT_GT(step.lifetimes.size(), 10000u) << step.name;
    EXPECT_LE(thousandths(step), 1030) << step.name;
  }
}

TEST(AddressPlanTest, SamePlanEveryTime) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<Lifetime> step = synthetic_step(seed).lifetimes;
    EXPECT_EQ(plan_addresses(step).offsets, plan_addresses(step).offsets) << seed;
  }
}

// Plans depend on the order of events only, not on how the caller counts them.
TEST(AddressPlanTest, GapsBetweenEventsDoNotMatter) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const std::vector<Lifetime> step = synthetic_step(seed).lifetimes;
    std::vector<Lifetime> stretched = step;
    for (Lifetime& lifetime : stretched) {
      lifetime.begin = 1000 + 7 * lifetime.begin;
      lifetime.end = 1000 + 7 * lifetime.end;
    }
    EXPECT_EQ(plan_addresses(stretched).offsets, plan_addresses(step).offsets) << seed;
  }
}

TEST(AddressPlanTest, NothingNeedsNothing) {
  const AddressPlan plan = plan_addresses({});
  EXPECT_TRUE(plan.offsets.empty());
  EXPECT_EQ(plan.high_water, 0);
  EXPECT_EQ(peak_bytes({}), 0);
  EXPECT_TRUE(is_sound({}, plan));
}

TEST(AddressPlanTest, TensorsWithoutBytesNeedNothing) {
  const std::vector<Lifetime> lifetimes = {{0, 0, 5}, {64, 1, 3}, {0, 1, 2}};
  const AddressPlan plan = plan_addresses(lifetimes);
  EXPECT_EQ(plan.high_water, 64);
  EXPECT_TRUE(is_sound(lifetimes, plan));
  const std::vector<Lifetime> none = {{0, 0, 5}, {0, 1, 3}};
  EXPECT_EQ(plan_addresses(none).high_water, 0);
}

TEST(AddressPlanTest, OneEvent) {
  const std::vector<Lifetime> one = {{128, 7, 8}};
  EXPECT_EQ(plan_addresses(one).offsets, std::vector<int64_t>{0});
  EXPECT_EQ(plan_addresses(one).high_water, 128);
}

TEST(AddressPlanTest, WhatAllOverlapsIsStacked) {
  std::vector<Lifetime> lifetimes;
  for (int32_t i = 0; i < 500; ++i) lifetimes.push_back({64 * (1 + i % 7), 3, 4 + i % 11});
  const AddressPlan plan = plan_addresses(lifetimes);
  EXPECT_TRUE(is_sound(lifetimes, plan));
  EXPECT_EQ(plan.high_water, peak_bytes(lifetimes));
}

TEST(AddressPlanTest, AnEndMakesRoomForABeginOfTheSameEvent) {
  const std::vector<Lifetime> lifetimes = {{256, 0, 1}, {256, 1, 2}, {256, 2, 3}};
  EXPECT_EQ(peak_bytes(lifetimes), 256);
  EXPECT_EQ(plan_addresses(lifetimes).high_water, 256);
}

TEST(AddressPlanTest, MistakesOfTheCallerAreErrors) {
  const std::vector<Lifetime> unsorted = {{64, 2, 3}, {64, 1, 3}};
  const std::vector<Lifetime> ended = {{64, 2, 2}};
  const std::vector<Lifetime> negative = {{-64, 1, 2}};
  const std::vector<Lifetime> endless = {{int64_t{1} << 60, 0, 1}, {64, 1, 2}};
  EXPECT_THROW(plan_addresses(unsorted), Error);
  EXPECT_THROW(plan_addresses(ended), Error);
  EXPECT_THROW(plan_addresses(negative), Error);
  EXPECT_THROW(plan_addresses(endless), Error);
}

// Any tensor moved onto another that lives at the same time is found out.
TEST(IsSoundTest, FindsEveryOverlap) {
  const std::vector<Lifetime> lifetimes = random_lifetimes(5);
  const AddressPlan plan = plan_addresses(lifetimes);
  Numbers numbers(1);
  int unsound = 0;
  for (int i = 0; i < 2000; ++i) {
    AddressPlan mutant = plan;
    const auto moved =
        static_cast<size_t>(numbers.up_to(static_cast<int64_t>(lifetimes.size()) - 1));
    mutant.offsets[moved] += 64 * (numbers.up_to(100) - 50);
    const bool sound = overlaps_nowhere(lifetimes, mutant);
    EXPECT_EQ(is_sound(lifetimes, mutant), sound) << i;
    unsound += sound ? 0 : 1;
  }
  EXPECT_GT(unsound, 1000);
}

// A pipeline: activations of each micro-batch are alive during three logits, which are larger. At
// one place, logits would take as much again as the activations of a micro-batch.
TEST(AddressPlanTest, LargeTensorsMoveOutOfTheWayOfThoseThatOutliveThem) {
  constexpr int64_t kSmall = 64, kMicro = 16 * kSmall, kLarge = kMicro + kSmall;
  std::vector<Lifetime> lifetimes;
  std::vector<std::vector<size_t>> alive;  // activations of micro-batches
  int32_t event = 0;
  const auto begin = [&](int64_t bytes) {
    lifetimes.push_back({bytes, event++, 0});
    return lifetimes.size() - 1;
  };
  const auto load = [&] {
    alive.emplace_back();
    for (int i = 0; i < 16; ++i) alive.back().push_back(begin(kSmall));
  };
  const auto end = [&](size_t i) { lifetimes[i].end = event++; };
  for (int i = 0; i < 3; ++i) load();
  for (size_t micro = 0; micro < 30; ++micro) {
    end(begin(kLarge));
    if (micro < 27) load();
    for (size_t i = 16; i-- > 0;) end(alive[micro][i]);
  }
  EXPECT_EQ(peak_bytes(lifetimes), 3 * kMicro + kLarge);
  const AddressPlan plan = plan_addresses(lifetimes);
  EXPECT_TRUE(is_sound(lifetimes, plan));
  EXPECT_LE(plan.high_water, 3 * kMicro + kLarge + 2 * kSmall);
}

TEST(IsSoundTest, FindsOneByteTooMany) {
  const std::vector<Lifetime> lifetimes = {{128, 0, 4}, {64, 1, 3}, {64, 3, 5}};
  EXPECT_TRUE(is_sound(lifetimes, {{0, 128, 128}, 192}));
  EXPECT_FALSE(is_sound(lifetimes, {{0, 127, 128}, 192}));   // into the one below
  EXPECT_FALSE(is_sound(lifetimes, {{1, 128, 128}, 192}));   // into the one above
  EXPECT_FALSE(is_sound(lifetimes, {{0, 128, 128}, 191}));   // beyond the high water
  EXPECT_FALSE(is_sound(lifetimes, {{-1, 128, 128}, 192}));  // before the first byte
  EXPECT_FALSE(is_sound(lifetimes, {{0, 128}, 192}));        // one is missing
}

}  // namespace
}  // namespace sextant
