#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include "schedule/blank_schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {
namespace {

std::vector<int> ranks_of_stages(const Schedule& schedule, int micro) {
  std::vector<int> out(static_cast<size_t>(schedule.stages));
  for (int stage = 0; stage < schedule.stages; ++stage) out[stage] = schedule.rank_of(stage, micro);
  return out;
}

TEST(Schedule, LoopGoesRoundTheRanks) {
  const Schedule schedule = blank_schedule("x", 4, 8, 2, Placement::Loop);
  EXPECT_EQ(ranks_of_stages(schedule, 0), (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(schedule.chunks(), 2);
  EXPECT_EQ(schedule.chunk_of(3, 0), 0);
  EXPECT_EQ(schedule.chunk_of(4, 0), 1);
}

TEST(Schedule, VComesBackToTheFirstRank) {
  const Schedule schedule = blank_schedule("x", 3, 8, 2, Placement::V);
  EXPECT_EQ(ranks_of_stages(schedule, 7), (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(schedule.chunk_of(2, 0), 0);
  EXPECT_EQ(schedule.chunk_of(3, 0), 1);
}

TEST(Schedule, DualMirrorsTheSecondHalfOfTheMicros) {
  const Schedule schedule = blank_schedule("x", 4, 6, 2, Placement::Dual);
  EXPECT_EQ(schedule.stages, 4);
  EXPECT_EQ(schedule.chunks(), 2);
  EXPECT_EQ(ranks_of_stages(schedule, 2), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(ranks_of_stages(schedule, 3), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(schedule.chunk_of(1, 2), 0);
  EXPECT_EQ(schedule.chunk_of(1, 3), 1);
}

TEST(StageCost, PeakFollowsWhatEachActionHoldsAndFrees) {
  Schedule schedule = blank_schedule("x", 2, 2, 1, Placement::Loop);
  schedule.ranks[0] = {{Kind::F, 0, 0}, {Kind::F, 0, 1}, {Kind::I, 0, 0},
                       {Kind::I, 0, 1}, {Kind::W, 0, 0}, {Kind::W, 0, 1}};
  schedule.ranks[1] = {
      {Kind::F, 1, 0}, {Kind::I, 1, 0}, {Kind::F, 1, 1}, {Kind::B, 1, 1}, {Kind::W, 1, 0}};
  const std::vector<StageCost> one = {{.activation_memory = 10, .memory_for_weight_grad = 4}};
  EXPECT_EQ(peak_memory(schedule, one), (std::vector<double>{20, 14}));
  const std::vector<StageCost> each = {{.activation_memory = 10, .memory_for_weight_grad = 4},
                                       {.activation_memory = 3, .memory_for_weight_grad = 3}};
  EXPECT_EQ(peak_memory(schedule, each), (std::vector<double>{20, 6}));
}

}  // namespace
}  // namespace sextant
