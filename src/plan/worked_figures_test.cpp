// Figures that lectures work out by hand, as the planner gives them.
#include <gtest/gtest.h>

#include "config/model_presets.h"
#include "plan/memory.h"
#include "plan/search.h"

namespace sextant {
namespace {

ModelShape model_of(const char* name, int64_t seq) {
  return shape_of(*model_preset(name), seq);
}

Case on_a100(const ModelShape& shape, int tp, int pp, int data, int zero) {
  DiskStorage storage;
  Case c;
  c.hardware = find_hardware(storage, "A100");
  c.shape = shape;
  c.numerics.grad_bytes = c.numerics.reduce_bytes = 2;
  c.layout.tp = tp;
  c.layout.sequence = tp > 1;
  c.layout.pp = pp;
  c.layout.zero = zero;
  (zero > 0 ? c.layout.shard : c.layout.dp) = data;
  c.global_batch = 4 * data;
  return c;
}

double state_bytes_gb(const Case& c) {
  const MemoryUse use = memory_use(c, Constants{});
  return (use.weights + use.gradients + use.optimizer) / 1e9;
}

// 70B on 256 GPUs of 80 GB: tp 2, pp 4 leaves 32 replicas, which fit with ZeRO-1 only.
TEST(WorkedFigures, SeventyBillionOn256Gpus) {
  const ModelShape shape = model_of("llama-70b", 2048);
  const double count = count_parameters(shape).total;
  EXPECT_NEAR(2 * count / 1e9, 140, 2);     // weights: two GPUs hold them
  EXPECT_NEAR(16 * count / 1e9, 1120, 15);  // all states: 15 GPUs
  const Case plain = on_a100(shape, 2, 4, 32, 0), sharded = on_a100(shape, 2, 4, 32, 1);
  EXPECT_EQ(plain.layout.world(), 256);
  EXPECT_EQ(plain.layout.data_ranks(), 32);
  EXPECT_NEAR(state_bytes_gb(plain), 140, 6);
  EXPECT_NEAR(state_bytes_gb(sharded), 38.3, 2);
  EXPECT_FALSE(fits(plain, memory_use(plain, Constants{})));
}

// 300 billion tokens on 1,024 A100 in 34 days: at the step time that the planner predicts for the
// layout of the Megatron paper.
TEST(WorkedFigures, GptThreeTakesFiveWeeksOn1024A100) {
  Case c = on_a100(model_of("gpt3-175b", 2048), 8, 8, 16, 0);
  c.layout.recompute = Recompute::Full;
  c.layout.sequence = false;
  c.practice.attention = AttentionKernel::FusedSoftmax;
  c.global_batch = 1536;
  ASSERT_EQ(c.layout.world(), 1024);
  const double step = simulated_step_time(c, Constants{}, 400'000).total();
  const double days = 300e9 / (1536.0 * 2048) * step / 86400;
  EXPECT_NEAR(days, 34, 5);
}

}  // namespace
}  // namespace sextant
