#include "optim/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sextant {
namespace {

PrecisionConfig fp16(double initial, int64_t window, int hysteresis) {
  PrecisionConfig precision;
  precision.compute = ComputeType::Fp16;
  precision.initial_loss_scale = initial;
  precision.loss_scale_window = window;
  precision.loss_scale_hysteresis = hysteresis;
  return precision;
}

// Megatron-LM's rule on a pattern of overflows.
TEST(LossScaler, FollowsOverflowsWithHysteresis) {
  LossScaler scaler(fp16(0x1p32, 4, 2));
  const std::vector<int> overflows = {1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1};
  const std::vector<int> wanted = {32, 32, 31, 31, 30, 30, 30, 30, 31, 31, 30};
  for (size_t i = 0; i < overflows.size(); ++i) {
    scaler.update(overflows[i] == 0);
    EXPECT_EQ(std::log2(scaler.scale()), wanted[i]) << "step " << i;
  }
  EXPECT_EQ(scaler.skipped(), 5);
}

TEST(LossScaler, NeverFallsBelowOneAndAFixedScaleStays) {
  LossScaler dynamic(fp16(4, 100, 1));
  for (int i = 0; i < 5; ++i) dynamic.update(false);
  EXPECT_EQ(dynamic.scale(), 1);
  PrecisionConfig fixed = fp16(4, 1, 1);
  fixed.loss_scale = 128;
  LossScaler scaler(fixed);
  scaler.update(false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 128);
  EXPECT_EQ(scaler.skipped(), 1);
}

TEST(LossScaler, OtherTypesHaveNone) {
  LossScaler scaler{PrecisionConfig{}};
  scaler.update(false);
  EXPECT_FALSE(scaler.is_used());
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_EQ(scaler.skipped(), 0);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler one(fp16(1024, 3, 2)), other(fp16(1024, 3, 2));
  for (const bool is_finite : {true, false, true, true}) one.update(is_finite);
  other.set_state(one.state());
  for (const bool is_finite : {true, false, false, true, true, true}) {
    one.update(is_finite);
    other.update(is_finite);
    EXPECT_EQ(one.state(), other.state());
  }
}

}  // namespace
}  // namespace sextant
