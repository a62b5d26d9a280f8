#include "sim/compare.h"

#include <gtest/gtest.h>

#include "schedule/generators.h"

namespace sextant {
namespace {

Timeline shifted(Timeline timeline, double by) {
  for (std::vector<TimedAction>& rank : timeline.ranks)
    for (TimedAction& timed : rank) {
      timed.start += by;
      timed.end += by;
    }
  return timeline;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Compare, OfASimulationWithItselfFindsNoDifference) {
  for (const Schedule& schedule : {gpipe(4, 8), one_f_one_b(4, 8), zb_h1(4, 8), zb_h2(4, 8),
                                   zb_v(4, 8), interleaved(4, 8, 2, 4)}) {
    const Costs costs{.stages = {{2, 3, 1}}, .latency = 0.25};
    const Timeline step = simulate(schedule, costs);
    const Comparison got = compare(schedule, std::vector{step, step, shifted(step, 1000)});
    const Figures figures = measure(step);
    EXPECT_EQ(got.steps, 3);
    EXPECT_EQ(got.skipped, 1);
    EXPECT_FALSE(got.order) << schedule.name;
    EXPECT_NEAR(got.measured.makespan, figures.makespan, 1e-9);
    EXPECT_NEAR(got.simulated.makespan, figures.makespan, 1e-9) << schedule.name;
    EXPECT_NEAR(got.measured.bubble_fraction, got.simulated.bubble_fraction, 1e-9);
    EXPECT_NEAR(got.simulated.utilisation, figures.utilisation, 1e-9);
    for (size_t rank = 0; rank < 4; ++rank)
      EXPECT_NEAR(got.measured.idle[rank], got.simulated.idle[rank], 1e-9);
    for (const ActionDifference& difference : got.differences) {
      EXPECT_NEAR(difference.late(), 0, 1e-9);
      EXPECT_NEAR(difference.longer, 0, 1e-9);
    }
  }
}

TEST(Compare, SkipsTheFirstStepAndShowsTheMedianOne) {
  const Schedule schedule = one_f_one_b(2, 4);
  std::vector<Timeline> steps;
  for (const double scale : {90.0, 1.0, 3.0, 2.0})
    steps.push_back(simulate(schedule, {.stages = {{scale, scale, scale}}}));
  const Comparison got = compare(schedule, steps);
  EXPECT_EQ(got.shown, 3);
  EXPECT_DOUBLE_EQ(got.measured.makespan, measure(steps[3]).makespan);
  EXPECT_DOUBLE_EQ(got.times.costs.stages[0].forward_time, 2);
  const Comparison alone = compare(schedule, std::span(steps).first(1));
  EXPECT_EQ(alone.skipped, 0);
  EXPECT_DOUBLE_EQ(alone.times.costs.stages[0].forward_time, 90);
}

TEST(Compare, NamesTheFirstActionThatRanOutOfOrder) {
  const Schedule listed = gpipe(2, 3);
  const Comparison got = compare(listed, std::vector{simulate(one_f_one_b(2, 3), {})});
  ASSERT_TRUE(got.order);
  EXPECT_EQ(got.order->rank, 0);
  EXPECT_EQ(got.order->place, 2u);
  EXPECT_EQ(got.order->measured, (Action{Kind::B, 0, 0}));
  EXPECT_EQ(got.order->listed, (Action{Kind::F, 0, 2}));
}

TEST(Compare, NamesTheActionThatTookLongerNotThoseThatWaitedForIt) {
  // The last F of stage 1 takes 7 instead of 1; the mean is 3. All B take 2.
  const auto f = [](int stage, int micro, double start, double end) {
    return TimedAction{{Kind::F, stage, micro}, start, end};
  };
  const auto b = [](int stage, int micro, double start) {
    return TimedAction{{Kind::B, stage, micro}, start, start + 2};
  };
  const Timeline step{
      {{f(0, 0, 0, 1), f(0, 1, 1, 2), f(0, 2, 2, 3), b(0, 0, 12), b(0, 1, 14), b(0, 2, 16)},
       {f(1, 0, 1, 2), f(1, 1, 2, 3), f(1, 2, 3, 10), b(1, 0, 10), b(1, 1, 12), b(1, 2, 14)}}};
  const Comparison got = compare(gpipe(2, 3), std::vector{shifted(step, 100)});
  EXPECT_DOUBLE_EQ(got.simulated.makespan, 18);
  ASSERT_EQ(got.differences.size(), 12u);
  const ActionDifference& first = got.differences[0];
  EXPECT_EQ(first.rank, 1);
  EXPECT_EQ(first.action, (Action{Kind::F, 1, 2}));
  EXPECT_DOUBLE_EQ(first.longer, 4);
  EXPECT_DOUBLE_EQ(first.measured, 3);
  EXPECT_DOUBLE_EQ(first.simulated, 7);
  EXPECT_DOUBLE_EQ(first.late(), -4);
  EXPECT_DOUBLE_EQ(got.differences[1].longer, -2);
  EXPECT_DOUBLE_EQ(got.differences[3].longer, 0);
}

TEST(Compare, TakesTheBubbleOfTheSameRankOnBothSides) {
  // All ranks of ZB-H1 end together: rounding decides which one is last.
  const Schedule schedule = zb_h1(4, 8);
  Timeline step = simulate(schedule, {});
  const double bubble = measure(step).bubble_fraction;
  step.ranks[3].back().end += 1e-3;
  EXPECT_NEAR(measure(step).bubble_fraction, 0, 1e-3);
  const Comparison got = compare(schedule, std::vector{step});
  EXPECT_EQ(got.bubble_rank, 0);
  EXPECT_NEAR(got.measured.bubble_fraction, bubble, 1e-3);
  EXPECT_NEAR(got.simulated.bubble_fraction, bubble, 1e-3);
}

TEST(CompareSvg, DrawsBothTimelinesOnOneAxis) {
  const Schedule schedule = zb_h1(2, 3);
  const Timeline step = shifted(simulate(schedule, {}), 500);
  const std::string svg = compare_svg(schedule, compare(schedule, std::vector{step}));
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // 6 of each kind in each timeline, and one in the legend.
  for (const char* colour : {"fill=\"#2f6fd0\"", "fill=\"#1a7f4b\"", "fill=\"#c46a0c\""})
    EXPECT_EQ(count(svg, colour), 13u) << colour;
  EXPECT_EQ(count(svg, ">rank 1<"), 2u);
  EXPECT_EQ(count(svg, ">Measured, step 1: "), 1u);
  EXPECT_EQ(count(svg, ">Simulated with "), 1u);
}

// The shorter of the two is shaded as far as it goes: what follows is no idle time of it.
TEST(CompareSvg, ShadesEachTimelineToItsOwnEnd) {
  const Schedule schedule = gpipe(2, 2);
  Comparison got = compare(schedule, std::vector{simulate(schedule, {})});
  TimedAction& last = got.measured_step.ranks[0].back();
  last.start += 9;
  last.end += 9;
  const std::string svg = compare_svg(schedule, got);
  // Rank 1 drains from its last forward, at 3, to the end: of 18 units of 1020 / 18 pixels, and
  // of 9.
  EXPECT_EQ(count(svg, "width=\"850\" height=\"25.2\" class=\"drains\""), 1u) << svg;
  EXPECT_EQ(count(svg, "width=\"340\" height=\"25.2\" class=\"drains\""), 1u) << svg;
}

}  // namespace
}  // namespace sextant
