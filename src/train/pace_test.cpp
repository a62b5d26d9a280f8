#include "train/pace.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

StepRecord step_of(double seconds, double exposed) {
  StepRecord step;
  step.step_s = seconds;
  step.tokens = 1000;
  step.tokens_per_s = 1000 / seconds;
  step.tflops = 2 / seconds;  // each step does the same work
  step.mfu = 0.5 / seconds;
  step.comm_s = 3 * exposed;
  step.comm_exposed_s = exposed;
  return step;
}

TEST(Pace, AveragesOverTheStepsSinceTheLastLine) {
  Pace pace;
  const StepRecord slow = step_of(3, 1), quick = step_of(1, 0);
  pace.add(slow);
  pace.add(quick);
  const StepRecord line = pace.since_line(quick);
  EXPECT_DOUBLE_EQ(line.step_s, 2);
  EXPECT_DOUBLE_EQ(line.tokens_per_s, 500);  // of the time, not the mean of both rates
  EXPECT_DOUBLE_EQ(line.tflops, 1);
  EXPECT_DOUBLE_EQ(line.mfu, 0.25);
  EXPECT_DOUBLE_EQ(line.comm_exposed_s, 0.5);
  EXPECT_DOUBLE_EQ(line.comm_s, 1.5);
  pace.end_line();
  pace.add(quick);
  EXPECT_DOUBLE_EQ(pace.since_line(quick).step_s, 1);
  EXPECT_DOUBLE_EQ(pace.recent(quick).step_s, 5.0 / 3);
  EXPECT_EQ(pace.steps(), 3);
  EXPECT_DOUBLE_EQ(pace.tokens_per_s(), 600);
  EXPECT_DOUBLE_EQ(pace.best_mfu(), 0.5);
}

TEST(Pace, KeepsLossAndOtherFiguresOfTheStep) {
  Pace pace;
  StepRecord first = step_of(1, 0), second = step_of(1, 0);
  first.loss = 5;
  second.loss = 4;
  second.step = 2;
  pace.add(first);
  pace.add(second);
  EXPECT_EQ(pace.since_line(second).loss, 4);
  EXPECT_EQ(pace.since_line(second).step, 2);
  EXPECT_EQ(Pace().since_line(first).step_s, 1);  // nothing to average
}

}  // namespace
}  // namespace sextant
