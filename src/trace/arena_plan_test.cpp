#include "trace/arena_plan.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

ArenaRecord record() {
  ArenaRecord out;
  out.resident = 1024;
  // Three tensors of a step: the second lives beside the first, the third after it.
  out.programs[static_cast<size_t>(Program::Step)] = {{64, 0, 3}, {128, 1, 5}, {64, 4, 6}};
  out.programs[static_cast<size_t>(Program::Evaluation)] = {{640, 0, 1}};
  return out;
}

TEST(ArenaPlan, ProgramsShareTheirAddressesAboveWhatIsResident) {
  const ArenaPlan plan = *plan_arena(record());
  EXPECT_EQ(plan.resident, 1024);
  EXPECT_EQ(plan.reserved, 1024 + 640);
  EXPECT_EQ(plan.peak, 1024 + 640);
  const std::vector<int64_t>& step = plan[Program::Step].offsets;
  ASSERT_EQ(step.size(), 3U);
  EXPECT_TRUE(step[0] + 64 <= step[1] || step[1] + 128 <= step[0]);
  EXPECT_TRUE(step[2] + 64 <= step[1] || step[1] + 128 <= step[2]);
}

TEST(ArenaPlan, ARedoGoesAroundWhatTheStepStillHas) {
  ArenaRecord with_redo = record();
  with_redo.programs[static_cast<size_t>(Program::Redo)] = {{64, 0, 2}, {64, 1, 3}};
  with_redo.alive_at_redo = {{1}, {1}};
  const ArenaPlan plan = *plan_arena(with_redo);
  const int64_t taken = plan[Program::Step].offsets[1];
  const std::vector<int64_t>& redo = plan[Program::Redo].offsets;
  for (const int64_t offset : redo) {
    EXPECT_TRUE(offset + 64 <= taken || taken + 128 <= offset);
    EXPECT_LE(plan.resident + offset + 64, plan.reserved);
  }
  EXPECT_NE(redo[0], redo[1]);
}

TEST(ArenaPlan, EverySizeIsAtLeastOneAlignment) {
  EXPECT_EQ(round_up(0, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(round_up(0, 256), 256);
  EXPECT_EQ(round_up(257, 256), 512);
}

}  // namespace
}  // namespace sextant
