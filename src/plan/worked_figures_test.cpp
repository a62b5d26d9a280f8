// Figures that lectures work out by hand, as the planner gives them.
#include <gtest/gtest.h>

#include "config/model_presets.h"
#include "plan/collective.h"
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

// 64 GPUs in 8 nodes: tensor parallel inside a node, four stages, two replicas.
TEST(WorkedFigures, TensorEightPipelineFourDataTwo) {
  const Case c = on_a100(model_of("llama-70b", 2048), 8, 4, 2, 1);
  EXPECT_EQ(c.layout.world(), 64);
  EXPECT_NEAR(state_bytes_gb(c), 2.2 * (4 + 12.0 / 2), 1);  // 70B / 32 parameters on a GPU
  EXPECT_TRUE(fits(c, memory_use(c, Constants{})));
  EXPECT_EQ(group_of(8, 1, c.hardware).local, 8);  // tp stays on NVLink
  EXPECT_EQ(group_of(2, 8, c.hardware).local, 1);  // data parallel does not
}

// 32 data ranks of 8 tensor ranks: experts over the data ranks, eight of them per node.
TEST(WorkedFigures, ExpertsOverThirtyTwoTimesEight) {
  Case c = on_a100(model_of("qwen3-235b-a22b", 4096), 8, 1, 32, 1);
  c.layout.ep = 32;
  EXPECT_EQ(c.layout.world(), 256);
  EXPECT_EQ(c.layout.expert_copies(), 8);
  c.layout.etp = 8;  // each expert over the tensor ranks, so that ep counts data ranks alone
  EXPECT_EQ(c.layout.expert_copies(), 1);
}

// 2,048 GPUs, 16 stages, 64 expert ranks: 8 nodes hold the experts of a stage, twice.
TEST(WorkedFigures, DeepSeekHasTwoCopiesOfEachExpert) {
  const ModelShape shape = model_of("deepseek-v3", 4096);
  Case c = on_a100(shape, 1, 16, 128, 1);
  c.layout.ep = 64;
  EXPECT_EQ(c.layout.world(), 2048);
  EXPECT_EQ(c.layout.data_ranks(), 128);
  EXPECT_EQ(c.layout.expert_copies(), 2);
  EXPECT_EQ(c.layout.ep / c.hardware.node_gpus, 8);
  EXPECT_EQ(shape.experts / c.layout.ep, 4);
}

// A dense 70B against an expert model of 1T: FLOPs follow the active parameters, bytes all of them.
TEST(WorkedFigures, ExpertsCostMemoryOfAllAndFlopsOfTheActive) {
  ModelShape dense = model_of("llama-70b", 1), sparse = model_of("kimi-k2", 1);
  const Parameters a = count_parameters(dense), b = count_parameters(sparse);
  EXPECT_NEAR(b.total / a.total, 1026 / 70.6, 0.3);
  EXPECT_NEAR(model_flops(dense, 1) / (6 * a.active), 1, 0.01);
  EXPECT_NEAR(model_flops(sparse, 1) / (6 * b.active), 1, 0.01);
  EXPECT_LT(b.active, a.active);
}

TEST(WorkedFigures, ZeroOneAndTwoHaveAFloorAndLeaveActivationsAlone) {
  const double ranks = 1e12;
  EXPECT_NEAR(state_bytes_per_parameter(1, ranks, 4), 4, 1e-9);
  EXPECT_NEAR(state_bytes_per_parameter(2, ranks, 4), 2, 1e-9);
  EXPECT_NEAR(state_bytes_per_parameter(3, ranks, 4), 0, 1e-9);
  const ModelShape shape = model_of("llama-8b", 4096);
  const double plain = memory_use(on_a100(shape, 1, 1, 64, 0), Constants{}).activations;
  for (int zero = 1; zero <= 3; ++zero) {
    const MemoryUse use = memory_use(on_a100(shape, 1, 1, 64, zero), Constants{});
    EXPECT_DOUBLE_EQ(use.activations, plain) << zero;
  }
}

}  // namespace
}  // namespace sextant
