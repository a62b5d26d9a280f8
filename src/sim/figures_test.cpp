// Published makespans, bubbles and memory of each schedule, against the simulator.
#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/generators.h"
#include "schedule/make_schedule.h"
#include "sim/simulate.h"

namespace sextant {
namespace {

using Numbers = std::vector<double>;

struct Known {
  Schedule schedule;
  double makespan;
  Numbers idle, peak;
  std::optional<double> overlap = {};
};

TEST(Figures, OfEverySchedule) {
  const std::vector<Known> all = {
      {gpipe(4, 8), 33, {9, 6, 3, 0}, {8, 8, 8, 8}},
      {one_f_one_b(4, 8), 33, {9, 6, 3, 0}, {4, 3, 2, 1}},
      {interleaved(4, 8, 2, 4), 57, {9, 6, 3, 0}, {11, 9, 7, 5}},
      {looped_bfs(4, 8, 2), 57, {9, 6, 3, 0}, Numbers(4, 16)},
      {interleaved_zb(4, 8, 2, 4), 51, {3, 2, 1, 0}, Numbers(4, 8)},
      {zb_h1(4, 8), 27, {3, 2, 1, 0}, Numbers(4, 4)},
      {zb_h2(4, 8), 27, Numbers(4, 0), Numbers(4, 7)},
      {zb_v(4, 8), 51, Numbers(4, 0), Numbers(4, 8)},
      {v_half(4, 8), 53, {5, 3, 3, 2}, Numbers(4, 6)},
      {v_min(4, 8), 59, {11, 9, 7, 6}, Numbers(4, 4)},
      {dualpipe(4, 8), 25, {1, 0, 0, 1}, Numbers(4, 5)},
      {dualpipe(8, 20), 66, {6, 5, 4, 3, 3, 4, 5, 6}, Numbers(8, 9), 3},
      {dualpipe_v(4, 10), 63, {3, 2, 1, 0}, Numbers(4, 9)},
      {dualpipe_v(4, 10), 66, {6, 5, 4, 3}, Numbers(4, 9), 3},
  };
  for (const Known& known : all) {
    const Timeline timeline = simulate(known.schedule, {.overlap = known.overlap});
    const Figures figures = measure(timeline);
    EXPECT_EQ(figures.makespan, known.makespan) << known.schedule.name;
    EXPECT_EQ(figures.idle, known.idle) << known.schedule.name;
    EXPECT_EQ(figures.span_bubble, *std::ranges::max_element(known.idle)) << known.schedule.name;
    const std::vector<StageCost> counted = {kCountHeld};
    EXPECT_EQ(peak_memory(known.schedule, counted), known.peak) << known.schedule.name;
    for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
      const auto curve = memory_curve(timeline.ranks[rank], counted);
      EXPECT_EQ(std::ranges::max(curve, {}, &MemoryPoint::held).held, known.peak[rank]);
      EXPECT_EQ(curve.back().held, 0);
    }
  }
}

double bubble_fraction(const Schedule& schedule, const Costs& costs = {}) {
  return measure(simulate(schedule, costs)).bubble_fraction;
}
double bubble_overhead(const Schedule& schedule, const Costs& costs = {}) {
  return measure(simulate(schedule, costs)).bubble_overhead;
}

TEST(Figures, BubblesFollowTheFormulas) {
  for (int p = 1; p <= 16; ++p)
    for (int m = 1; m <= 64; m += 3) {
      const double fraction = (p - 1.0) / (m + p - 1), overhead = (p - 1.0) / m;
      for (const Costs& costs : {Costs{}, Costs{.stages = {{10, 12, 8}}}})
        for (const Schedule& schedule : {gpipe(p, m), one_f_one_b(p, m)}) {
          EXPECT_DOUBLE_EQ(bubble_fraction(schedule, costs), fraction) << p << " " << m;
          EXPECT_DOUBLE_EQ(bubble_overhead(schedule, costs), overhead) << p << " " << m;
        }
    }
}

TEST(Figures, ChunksDivideTheBubble) {
  for (const int p : {2, 3, 4, 8})
    for (const int v : {1, 2, 3, 4})
      for (const int groups : {1, 2, 5}) {
        const int m = p * groups;
        for (const Schedule& schedule : {interleaved(p, m, v, p), looped_bfs(p, m, v)}) {
          EXPECT_DOUBLE_EQ(bubble_overhead(schedule), (p - 1.0) / (v * m)) << schedule.name;
          EXPECT_DOUBLE_EQ(bubble_fraction(schedule), (p - 1.0) / (v * m + p - 1));
        }
      }
}

TEST(Figures, OneMicroBatchKeepsOneRankBusyAtATime) {
  for (const int p : {1, 2, 4, 8})
    EXPECT_DOUBLE_EQ(measure(simulate(one_f_one_b(p, 1), {})).utilisation, 1.0 / p);
}

TEST(Figures, SpanBubblesOfUnequalOperations) {
  const Costs costs{.stages = {{10, 12, 8}}};
  const auto span_bubble = [&](const Schedule& schedule) {
    return measure(simulate(schedule, costs)).span_bubble;
  };
  EXPECT_EQ(span_bubble(one_f_one_b(4, 8)), 90);
  EXPECT_EQ(span_bubble(zb_h1(4, 8)), 42);
  EXPECT_EQ(span_bubble(zb_h2(4, 8)), 18);
  EXPECT_EQ(span_bubble(one_f_one_b(8, 24)), 210);
  EXPECT_EQ(span_bubble(zb_h1(8, 24)), 98);
  EXPECT_EQ(span_bubble(zb_h2(8, 24)), 42);
  // No formula holds when weight gradients take longest.
  const Costs long_weights{.stages = {{10, 8, 12}}};
  EXPECT_EQ(measure(simulate(zb_h1(4, 8), long_weights)).span_bubble, 24);
  EXPECT_EQ(measure(simulate(zb_h2(4, 8), long_weights)).span_bubble, 0);
}

TEST(Figures, OfTheSchedulesThatAreSearchedForGivenTimes) {
  const auto figures = [](const ScheduleRequest& request) {
    return measure(simulate(make_schedule(request),
                            {.stages = request.costs, .latency = request.message_time}));
  };
  const auto span_bubble = [&](const StageCost& cost, double comm, double limit) {
    return figures({"zb-auto", 8, 24, 1, 0, {cost}, comm, limit}).span_bubble;
  };
  const StageCost even{10, 12, 8, 2, 1}, real{18, 21, 13, 2, 1};
  EXPECT_EQ(span_bubble(even, 0, 16), 98);
  EXPECT_EQ(span_bubble(even, 0, 24), 44);
  EXPECT_EQ(span_bubble(even, 0, 32), 8);
  EXPECT_EQ(span_bubble(real, 2, 16), 238);
  EXPECT_EQ(span_bubble(real, 2, 24), 103);
  EXPECT_EQ(span_bubble(real, 2, 32), 35);
  const auto most_idle = [&](int ranks, int micros, const StageCost& cost, double comm) {
    return std::ranges::max(figures({"zb-v", ranks, micros, 2, 0, {cost}, comm, 0}).idle);
  };
  EXPECT_EQ(most_idle(4, 8, even, 0), 16);
  EXPECT_EQ(most_idle(8, 20, even, 0), 48);
  EXPECT_EQ(most_idle(4, 8, {10, 14, 6, 2, 1}, 1), 58);
  EXPECT_EQ(most_idle(8, 16, {10, 14, 6, 2, 1}, 1), 146);
}

TEST(Figures, GPipeHoldsEveryMicroBatchAndOneFOneBNoMoreThanStages) {
  const std::vector<StageCost> counted = {kCountHeld};
  for (const int m : {8, 32, 128}) {
    EXPECT_EQ(peak_memory(gpipe(4, m), counted), Numbers(4, m));
    EXPECT_EQ(peak_memory(one_f_one_b(4, m), counted), (Numbers{4, 3, 2, 1}));
  }
}

// A cheap first stage, and an expensive last one with the head: equal total work, balanced or not.
TEST(Figures, UnequalStagesWasteMoreThanTheFormulaAndABalancedSplitRecoversIt) {
  const double formula = 3.0 / (16 + 3);
  const std::vector<StageCost> uneven = {{4, 4, 4}, {6, 6, 6}, {6, 6, 6}, {8, 8, 8}};
  const Figures figures = measure(simulate(one_f_one_b(4, 16), {.stages = uneven}));
  EXPECT_GT(figures.bubble_fraction, 1.5 * formula);
  EXPECT_LT(figures.utilisation, 1 - formula);
  const Figures balanced = measure(simulate(one_f_one_b(4, 16), {.stages = {{6, 6, 6}}}));
  EXPECT_DOUBLE_EQ(balanced.bubble_fraction, formula);
  EXPECT_DOUBLE_EQ(balanced.utilisation, 1 - formula);
  EXPECT_GT(figures.makespan, balanced.makespan);
  // Longest span minus most work: the waits of rank 1 for its first input and of rank 0 for rank 1.
  const std::vector<StageCost> two = {{1, 1, 1}, {2, 2, 2}};
  EXPECT_EQ(measure(simulate(one_f_one_b(2, 8), {.stages = two})).span_bubble, 51 - 48);
  // The formula ignores messages too.
  EXPECT_GT(bubble_fraction(one_f_one_b(4, 16), {.stages = {{6, 6, 6}}, .latency = 1}), formula);
}

TEST(Figures, OfTheLastRankToFinishAndTheIdlestOfThose) {
  // All ranks of ZB-H1 end together; rank 0 is idle longest.
  EXPECT_DOUBLE_EQ(bubble_fraction(zb_h1(4, 8)), 3.0 / 27);
  EXPECT_DOUBLE_EQ(bubble_overhead(zb_h1(4, 8)), 3.0 / 24);
  // Measured times that do not start at 0.
  const Timeline late{{{{{Kind::F, 0, 0}, 5, 6}, {{Kind::B, 0, 0}, 8, 10}}}};
  EXPECT_EQ(measure(late).makespan, 5);
  EXPECT_EQ(measure(late).bubble_fraction, 2.0 / 5);
}

TEST(MemoryCurve, FreesWhatTheInputHalfNoLongerNeeds) {
  const Timeline timeline = simulate(zb_h1(1, 2), {});
  const std::vector<StageCost> costs = {{1, 1, 1, 10, 4}};
  std::vector<std::pair<double, double>> points;
  for (const MemoryPoint& point : memory_curve(timeline.ranks[0], costs))
    points.emplace_back(point.time, point.held);
  // F0 I0 W0 F1 I1 W1
  EXPECT_EQ(points, (std::vector<std::pair<double, double>>{
                        {0, 10}, {2, 4}, {3, 0}, {3, 10}, {5, 4}, {6, 0}}));
}

TEST(MemoryCurve, AnOverlappedBlockTakesBeforeItFrees) {
  const std::vector<TimedAction> rank = {
      {{Kind::F, 0, 0}, 0, 1}, {{Kind::B, 0, 0, true}, 1, 4}, {{Kind::F, 0, 1}, 1, 4}};
  const std::vector<StageCost> costs = {kCountHeld};
  const std::vector<MemoryPoint> curve = memory_curve(rank, costs);
  ASSERT_EQ(curve.size(), 3u);
  EXPECT_EQ(curve[1].held, 2);
  EXPECT_EQ(curve[1].time, 1);
  EXPECT_EQ(curve[2].held, 1);
  EXPECT_EQ(curve[2].time, 4);
}

}  // namespace
}  // namespace sextant
