#include "trace/slot_pools.h"

#include <gtest/gtest.h>

#include <set>

namespace sextant {
namespace {

// Cycles of two tensors each; the first lives for two and a half cycles, the second for a quarter.
struct Steady {
  std::vector<Lifetime> lifetimes;
  Cycle cycle;
};

Steady steady(int64_t large, int64_t small) {
  Steady out;
  for (int32_t i = 0; i < 6; ++i) {
    out.lifetimes.push_back({large, 4 * i, 4 * i + 10});
    out.lifetimes.push_back({small, 4 * i + 1, 4 * i + 3});
  }
  out.cycle = {2, 4, 12, 24, 10};
  EXPECT_TRUE(measure(out.lifetimes, out.cycle));
  return out;
}

TEST(SlotPools, ATensorThatLivesLongTakesTheSlotsInTurn) {
  const Steady program = steady(1024, 64);
  const SlotPools pools(program.lifetimes, program.cycle);
  EXPECT_EQ(program.cycle.depth, 3);
  std::set<int64_t> slots;
  for (int64_t i = 0; i < 3; ++i) slots.insert(pools.offset(0, i));
  EXPECT_EQ(slots.size(), 3U);
  for (int64_t i = -2; i < 20; ++i) EXPECT_EQ(pools.offset(0, i), pools.offset(0, i + 3)) << i;
}

TEST(SlotPools, AFreeSlotServesASmallerTensor) {
  // When the third of the large ones begins, the first still lives; one ends before the small one
  // begins in its place.
  EXPECT_EQ(SlotPools(steady(1024, 64).lifetimes, steady(1024, 64).cycle).bytes(), 3 * 1024 + 64);
  Steady program = steady(1024, 64);
  for (Lifetime& lifetime : program.lifetimes)
    if (lifetime.bytes == 1024) lifetime.end -= 1;  // now before the small one begins
  for (size_t i = 1; i < program.lifetimes.size(); i += 2) {
    program.lifetimes[i].begin += 1;
    program.lifetimes[i].end = program.lifetimes[i].begin + 1;
  }
  ASSERT_TRUE(measure(program.lifetimes, program.cycle));
  EXPECT_EQ(SlotPools(program.lifetimes, program.cycle).bytes(), 3 * 1024);
}

}  // namespace
}  // namespace sextant
