#include "optim/lr.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

OptimConfig settings(LrSchedule schedule) {
  OptimConfig optim;
  optim.lr = 1;
  optim.min_lr = 0.1;
  optim.warmup = 10;
  optim.schedule = schedule;
  return optim;
}

TEST(LearningRate, WarmsUpInAStraightLine) {
  const OptimConfig optim = settings(LrSchedule::Cosine);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 0, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 4, 110), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 9, 110), 1);
}

TEST(LearningRate, CosineIsHalfwayInTheMiddleAndEndsAtTheFloor) {
  const OptimConfig optim = settings(LrSchedule::Cosine);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 10, 111), 1);
  EXPECT_NEAR(learning_rate(optim, 60, 111), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 110, 111), 0.1);
}

TEST(LearningRate, LinearFallsByEqualSteps) {
  const OptimConfig optim = settings(LrSchedule::Linear);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 10, 111), 1);
  EXPECT_NEAR(learning_rate(optim, 35, 111), 0.775, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 110, 111), 0.1);
}

TEST(LearningRate, WsdStaysThenFallsOverItsLastShare) {
  OptimConfig optim = settings(LrSchedule::Wsd);
  optim.wsd_decay = 0.2;
  EXPECT_DOUBLE_EQ(learning_rate(optim, 79, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 80, 100), 1);
  EXPECT_LT(learning_rate(optim, 81, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 99, 100), 0.1);
}

TEST(LearningRate, ConstantStays) {
  const OptimConfig optim = settings(LrSchedule::Constant);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 99, 100), 1);
}

TEST(LearningRate, OneStepWithoutWarmUpIsDefined) {
  OptimConfig optim = settings(LrSchedule::Cosine);
  optim.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(optim, 0, 1), 0.1);
}

}  // namespace
}  // namespace sextant
