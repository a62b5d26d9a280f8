#include "sim/simulate.h"

#include <gtest/gtest.h>

#include "base/parse.h"
#include "schedule/generators.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

constexpr Kind F = Kind::F, B = Kind::B, I = Kind::I, W = Kind::W;

Schedule by_hand(int stages, int micros, std::vector<std::vector<Action>> ranks,
                 Placement placement = Placement::Loop) {
  return {"by hand", stages, micros, placement, std::move(ranks)};
}

// "start-end start-end ..." of a rank.
std::string times_of(const std::vector<TimedAction>& rank) {
  std::vector<std::string> parts;
  for (const TimedAction& timed : rank) parts.push_back(concat(timed.start, "-", timed.end));
  return join(parts, " ");
}

TEST(Simulate, RunsEachActionAsSoonAsItsInputsAreThere) {
  const Timeline timeline = simulate(one_f_one_b(2, 2), {.stages = {{2, 3, 1}}});
  // Rank 1: F0, B0 (whole backward), F1, B1. Its input gradients are sent at the end of B.
  EXPECT_EQ(times_of(timeline.ranks[0]), "0-2 2-4 8-12 14-18");
  EXPECT_EQ(times_of(timeline.ranks[1]), "2-4 4-8 8-10 10-14");
  const Figures figures = measure(timeline);
  EXPECT_EQ(figures.makespan, 18);
  EXPECT_EQ(figures.idle, (std::vector<double>{6, 0}));
  EXPECT_EQ(figures.work, (std::vector<double>{12, 12}));
  EXPECT_EQ(figures.span_bubble, 6);
  EXPECT_EQ(figures.bubble_fraction, 6.0 / 18);
  EXPECT_EQ(figures.bubble_overhead, 6.0 / 12);
  EXPECT_EQ(figures.utilisation, 24.0 / 36);
}

TEST(Simulate, LetsTheInputHalfLeaveBeforeTheWeightHalf) {
  const Schedule schedule =
      by_hand(2, 1, {{{F, 0, 0}, {I, 0, 0}, {W, 0, 0}}, {{F, 1, 0}, {I, 1, 0}, {W, 1, 0}}});
  const Timeline timeline = simulate(schedule, {.stages = {{2, 3, 4}}});
  EXPECT_EQ(times_of(timeline.ranks[1]), "2-4 4-7 7-11");
  EXPECT_EQ(times_of(timeline.ranks[0]), "0-2 7-10 10-14");
}

TEST(Simulate, TakesTimesOfEachStage) {
  const Timeline timeline =
      simulate(gpipe(2, 1), {.stages = {{1, 2, 3}, {10, 20, 30}}, .latency = 100});
  EXPECT_EQ(times_of(timeline.ranks[0]), "0-1 261-266");
  EXPECT_EQ(times_of(timeline.ranks[1]), "101-111 111-161");
}

TEST(Simulate, DelaysOnlyWhatGoesToAnotherRank) {
  // The turn of the V is on one rank: no message there.
  const Schedule turn = by_hand(2, 1, {{{F, 0, 0}, {F, 1, 0}, {B, 1, 0}, {B, 0, 0}}}, Placement::V);
  EXPECT_EQ(times_of(simulate(turn, {.latency = 50}).ranks[0]), "0-1 1-2 2-4 4-6");
}

TEST(Simulate, SendsOneMessageAtATimeOverALink) {
  // Both outputs of rank 0 are ready before the first message is through.
  const Timeline timeline = simulate(gpipe(2, 2), {.latency = 1, .wire = 10});
  EXPECT_EQ(times_of(timeline.ranks[0]).substr(0, 8), "0-1 1-2 ");
  EXPECT_EQ(times_of(timeline.ranks[1]), "12-13 22-23 23-25 25-27");
  // Backward: 25 + 10 + 1, and the next from 35.
  EXPECT_EQ(times_of(timeline.ranks[0]), "0-1 1-2 36-38 46-48");
}

TEST(Simulate, LinksOfBothDirectionsAreApart) {
  // Rank 1 sends a gradient to rank 0 until 31 and, from 26 on, the output of F1 to rank 2.
  const Schedule schedule = by_hand(3, 2,
                                    {{{F, 0, 0}, {F, 0, 1}, {B, 0, 0}, {B, 0, 1}},
                                     {{F, 1, 0}, {B, 1, 0}, {F, 1, 1}, {B, 1, 1}},
                                     {{F, 2, 0}, {B, 2, 0}, {F, 2, 1}, {B, 2, 1}}});
  const Timeline timeline = simulate(schedule, {.wire = 6});
  EXPECT_EQ(times_of(timeline.ranks[0]), "0-1 1-2 31-33 49-51");
  EXPECT_EQ(times_of(timeline.ranks[1]), "7-8 23-25 25-26 41-43");
  EXPECT_EQ(times_of(timeline.ranks[2]), "14-15 15-17 32-33 33-35");
}

TEST(Simulate, RunsAJoinedBlockSeriallyOrAsOne) {
  // F1 is joined with B0: one after the other, or one block with `overlap`.
  const Schedule schedule = by_hand(1, 2, {{{F, 0, 0}, {F, 0, 1, true}, {B, 0, 0}, {B, 0, 1}}});
  EXPECT_EQ(times_of(simulate(schedule, {}).ranks[0]), "0-1 1-2 2-4 4-6");
  EXPECT_EQ(times_of(simulate(schedule, {.overlap = 2.5}).ranks[0]), "0-1 1-3.5 1-3.5 3.5-5.5");
  const Figures figures = measure(simulate(schedule, {.overlap = 2.5}));
  EXPECT_EQ(figures.work[0], 5.5);
  EXPECT_EQ(figures.idle[0], 0);
}

TEST(Simulate, AnAtomicBlockNeedsTheInputsOfBothHalves) {
  // Rank 0 joins F1 with B0, whose gradient arrives from rank 1 at time 4.
  const Schedule schedule = by_hand(2, 2,
                                    {{{F, 0, 0}, {F, 0, 1, true}, {B, 0, 0}, {B, 0, 1}},
                                     {{F, 1, 0}, {B, 1, 0}, {F, 1, 1}, {B, 1, 1}}});
  EXPECT_EQ(times_of(simulate(schedule, {}).ranks[0]), "0-1 1-2 4-6 7-9");
  const Timeline atomic = simulate(schedule, {.overlap = 3});
  EXPECT_EQ(times_of(atomic.ranks[0]), "0-1 4-7 4-7 10-12");
  EXPECT_EQ(times_of(atomic.ranks[1]), "1-2 2-4 7-8 8-10");
}

TEST(Simulate, NeedsNoTimeForOtherActionsThanCompute) {
  Schedule schedule = one_f_one_b(2, 3);
  const std::string plain = times_of(simulate(schedule, {}).ranks[0]);
  for (std::vector<Action>& rank : schedule.ranks)
    rank.insert(rank.begin() + 1, {Kind::SendF, 0, 0});
  EXPECT_EQ(times_of(simulate(schedule, {}).ranks[0]), plain);
}

TEST(Simulate, NamesTheRanksThatWaitForEachOther) {
  Schedule schedule = one_f_one_b(2, 2);
  std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);  // B0 before F0
  EXPECT_ERROR(simulate(schedule, {}), Config,
               "rank 0 at B of stage 0, micro 0 waits for the backward of stage 1, micro 0; "
               "rank 1 at B of stage 1, micro 0 waits for the forward of stage 1, micro 0");
}

TEST(Simulate, FindsADeadlockInsideAnAtomicBlock) {
  const Schedule schedule = by_hand(1, 1, {{{F, 0, 0, true}, {B, 0, 0}}});
  EXPECT_EQ(times_of(simulate(schedule, {}).ranks[0]), "0-1 1-3");
  EXPECT_ERROR(simulate(schedule, {.overlap = 3}), Config,
               "cannot go on: rank 0 at F of stage 0, micro 0");
}

TEST(Simulate, NamesAFewOfManyThatWait) {
  Schedule schedule = gpipe(8, 2);
  schedule.ranks[0].erase(schedule.ranks[0].begin());
  EXPECT_ERROR(simulate(schedule, {}), Config, "and 4 more ranks wait");
}

TEST(Simulate, RefusesWhatCannotBe) {
  const Schedule schedule = gpipe(2, 2);
  EXPECT_ERROR(simulate(schedule, {.stages = {{}, {}, {}}}), Config,
               "times of 3 stages for a schedule of 2, give one or 2");
  EXPECT_ERROR(simulate(schedule, {.stages = {{-1, 1, 1}}}), Config, "forward time -1");
  EXPECT_ERROR(simulate(schedule, {.latency = 1.0 / 0.0}), Config, "latency time inf");
  Schedule strange = schedule;
  strange.ranks[0][1].stage = 1;
  EXPECT_ERROR(simulate(strange, {}), Config, "rank 0 has an action of stage 1");
  strange.ranks[0][1] = {F, 0, 2};
  EXPECT_ERROR(simulate(strange, {}), Config, "micro 2");
  strange = by_hand(1, 1, {{{F, 0, 0}, {B, 0, 0, true}}});
  EXPECT_ERROR(simulate(strange, {.overlap = 1}), Config, "the last action of rank 0 is joined");
  EXPECT_ERROR(simulate(Schedule{}, {}), Config, "0 ranks");
}

}  // namespace
}  // namespace sextant
