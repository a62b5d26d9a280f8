#include "sim/measured.h"

#include <gtest/gtest.h>

#include "schedule/generators.h"
#include "schedule/print.h"
#include "sim/simulate.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

// The spans of a run of `schedule` whose actions take `costs`, starting at `begin`.
void add_step(std::vector<Span>& spans, const Schedule& schedule, const Costs& costs, double begin,
              const PipelineRanks& ranks = {}) {
  const Timeline timeline = simulate(schedule, costs);
  for (int rank = 0; rank < schedule.size(); ++rank)
    for (const TimedAction& timed : timeline.ranks[static_cast<size_t>(rank)])
      spans.push_back({"compute", describe(timed.action), ranks.first + rank * ranks.apart, 0,
                       begin + timed.start, begin + timed.end});
}

TEST(MeasuredSteps, AreTheTimelinesThatLeftTheSpans) {
  const Schedule schedule = zb_h1(3, 4);
  const Costs costs{.stages = {{1, 2, 3}}, .latency = 0.5};
  std::vector<Span> spans = {{"compute", "forward layers.0.mlp", 0, 0, 0, 1},
                             {"comm", "F of stage 0, micro 0", 0, 1, 0, 1},
                             {"compute", "optimizer", 1, 0, 0, 1}};
  add_step(spans, schedule, costs, 100);
  add_step(spans, schedule, costs, 200);
  const std::vector<Timeline> steps = measured_steps(spans, schedule, {}, "trace.json");
  ASSERT_EQ(steps.size(), 2u);
  const Timeline expected = simulate(schedule, costs);
  for (size_t step = 0; step < 2; ++step)
    for (size_t rank = 0; rank < 3; ++rank)
      for (size_t i = 0; i < expected.ranks[rank].size(); ++i) {
        const TimedAction &got = steps[step].ranks[rank][i], &want = expected.ranks[rank][i];
        EXPECT_EQ(got.action, want.action);
        EXPECT_DOUBLE_EQ(got.start, want.start + (step == 0 ? 100 : 200));
        EXPECT_DOUBLE_EQ(got.end, want.end + (step == 0 ? 100 : 200));
      }
}

TEST(MeasuredSteps, PassOverEvaluationsAndAStepThatWasNotFinished) {
  const Schedule schedule = one_f_one_b(2, 2);
  std::vector<Span> spans;
  add_step(spans, schedule, {}, 0);
  for (int rank = 0; rank < 2; ++rank)  // an evaluation with fewer micros
    spans.push_back({"compute", describe({Kind::F, rank, 0}), rank, 0, 50.0 + rank, 51.0 + rank});
  add_step(spans, schedule, {}, 100);
  spans.push_back({"compute", describe({Kind::F, 0, 0}), 0, 0, 200, 201});
  const std::vector<Timeline> steps = measured_steps(spans, schedule, {}, "trace.json");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_DOUBLE_EQ(steps[1].ranks[0][0].start, 100);
  EXPECT_DOUBLE_EQ(steps[1].ranks[1][0].start, 101);
}

TEST(MeasuredSteps, AreThoseOfOnePipelineAmongSeveral) {
  const Schedule schedule = gpipe(2, 3);
  std::vector<Span> spans;
  add_step(spans, schedule, {}, 0, {0, 2});
  add_step(spans, schedule, {}, 7, {1, 2});
  EXPECT_DOUBLE_EQ(measured_steps(spans, schedule, {0, 2}, "t")[0].ranks[1][0].start, 1);
  EXPECT_DOUBLE_EQ(measured_steps(spans, schedule, {1, 2}, "t")[0].ranks[1][0].start, 8);
}

TEST(MeasuredSteps, ShowTheOrderInWhichActionsRan) {
  const Schedule listed = gpipe(2, 2), run = one_f_one_b(2, 2);
  std::vector<Span> spans;
  add_step(spans, run, {}, 0);
  const std::vector<Timeline> steps = measured_steps(spans, listed, {}, "trace.json");
  EXPECT_EQ(steps[0].ranks[1][1].action, (Action{Kind::B, 1, 0}));
}

TEST(MeasuredSteps, OfAnotherRunAreRefusedWithTheReason) {
  const Schedule schedule = one_f_one_b(2, 3);
  std::vector<Span> spans;
  add_step(spans, schedule, {}, 0);
  const auto refuse = [&](const Schedule& other, const char* reason) {
    EXPECT_ERROR(measured_steps(spans, other, {}, "trace.json"), Data, reason);
  };
  refuse(one_f_one_b(3, 3), "trace.json has no action of rank 2 (rank 2 of a pipeline of 3)");
  refuse(one_f_one_b(2, 4), "trace.json: rank 0 never did F of stage 0, micro 3");
  refuse(one_f_one_b(2, 2), "rank 0 did F of stage 0, micro 2, but the run has 2 stages and 2");
  refuse(zb_h1(2, 3), "rank 0 did B of stage 0, micro 0, which zb-h1 has not");
  std::erase_if(spans, [](const Span& span) { return span.rank == 1; });
  refuse(schedule, "trace.json has no action of rank 1 (rank 1 of a pipeline of 2)");
  std::erase_if(spans, [](const Span& span) { return span.name.starts_with("B"); });
  refuse(one_f_one_b(1, 3), "rank 0 never did F of stage 0, micro 0");
  spans.clear();
  refuse(schedule, "trace.json has no action of rank 0");
}

TEST(MeasuredSteps, TakeNoOtherNamesForActions) {
  std::vector<Span> spans;
  const Schedule schedule = gpipe(1, 1);
  add_step(spans, schedule, {}, 0);
  for (const char* name : {"F of stage x, micro 0", "F of stage 0", "F of stage 0, micro -1",
                           "SendF of stage 0, micro 0", "F of stage 99999999999, micro 0"})
    spans.push_back({"compute", name, 0, 0, 0.5, 5});
  const std::vector<Timeline> steps = measured_steps(spans, schedule, {}, "trace.json");
  EXPECT_EQ(steps[0].ranks[0].size(), 2u);
}

TEST(MeasuredTimes, AreThoseThatTheOperationsTook) {
  const Schedule schedule = zb_h1(3, 6);
  const Costs costs{.stages = {{1, 2, 3}, {2, 2, 2}, {1.5, 1, 4}}, .latency = 0.25};
  std::vector<Span> spans;
  for (const double begin : {0, 1000, 2000}) add_step(spans, schedule, costs, begin);
  const MeasuredTimes times =
      measured_times(schedule, measured_steps(spans, schedule, {}, "trace.json"));
  ASSERT_EQ(times.costs.stages.size(), 3u);
  for (size_t stage = 0; stage < 3; ++stage) {
    EXPECT_NEAR(times.costs.stages[stage].forward_time, costs.stages[stage].forward_time, 1e-9);
    EXPECT_NEAR(times.costs.stages[stage].input_grad_time, costs.stages[stage].input_grad_time,
                1e-9);
    EXPECT_NEAR(times.costs.stages[stage].weight_grad_time, costs.stages[stage].weight_grad_time,
                1e-9);
  }
  EXPECT_NEAR(times.costs.latency, 0.25, 1e-9);
  EXPECT_NEAR(times.between, 0, 1e-9);
  EXPECT_FALSE(times.costs.overlap);
}

TEST(MeasuredTimes, OfAStageAreTheMedianOverStepsOfMeansOverMicros) {
  const Schedule schedule = gpipe(1, 2);
  std::vector<Span> spans;
  const auto step = [&](double begin, double first, double second) {
    double at = begin;
    const auto add = [&](Kind kind, int micro, double length) {
      spans.push_back({"compute", describe({kind, 0, micro}), 0, 0, at, at + length});
      at += length + 0.5;
    };
    add(Kind::F, 0, first);
    add(Kind::F, 1, second);
    add(Kind::B, 0, 4);
    add(Kind::B, 1, 4);
  };
  step(0, 3, 1);
  step(100, 3, 90);  // disturbed
  step(300, 3, 1);
  const MeasuredTimes times =
      measured_times(schedule, measured_steps(spans, schedule, {}, "trace.json"));
  EXPECT_DOUBLE_EQ(times.costs.stages[0].forward_time, 2);  // mean of 3 and 1
  EXPECT_DOUBLE_EQ(times.costs.stages[0].input_grad_time + times.costs.stages[0].weight_grad_time,
                   4);
  EXPECT_DOUBLE_EQ(times.between, 0.5);
  EXPECT_DOUBLE_EQ(times.costs.latency, 0);
}

TEST(MeasuredTimes, OfJoinedBlocksAreThoseOfTheBlock) {
  const Schedule schedule = dualpipe_v(2, 6);
  const Costs costs{.stages = {{1, 1, 1}}, .overlap = 2.5};
  std::vector<Span> spans;
  add_step(spans, schedule, costs, 10);
  // The second span of a block starts slightly later and ends slightly earlier.
  for (size_t i = 1; i < spans.size(); ++i)
    if (spans[i].begin == spans[i - 1].begin && spans[i].rank == spans[i - 1].rank) {
      spans[i].begin += 1e-6;
      spans[i].end -= 1e-6;
    }
  const std::vector<Timeline> steps = measured_steps(spans, schedule, {}, "trace.json");
  const MeasuredTimes times = measured_times(schedule, steps);
  ASSERT_TRUE(times.costs.overlap);
  EXPECT_NEAR(*times.costs.overlap, 2.5, 1e-9);
  EXPECT_NEAR(times.costs.stages[0].forward_time, 1, 1e-9);
  size_t blocks = 0;
  for (const std::vector<TimedAction>& rank : steps[0].ranks)
    for (size_t i = 0; i + 1 < rank.size(); ++i)
      if (rank[i].action.joined) {
        ++blocks;
        EXPECT_EQ(rank[i].start, rank[i + 1].start);
        EXPECT_EQ(rank[i].end, rank[i + 1].end);
      }
  EXPECT_GT(blocks, 0u);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 8}), 3);
}

}  // namespace
}  // namespace sextant
