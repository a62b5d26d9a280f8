#include "plan/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/model_presets.h"
#include "schedule/make_schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {
namespace {

// A GPT layer of the Megatron papers: dropout, unfused attention, 4h MLP.
Case gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t seq, int64_t micro, int pp) {
  static DiskStorage storage;
  Case c;
  c.hardware = find_hardware(storage, "A100");
  ModelShape& s = c.shape;
  s.layers = layers;
  s.hidden = hidden;
  s.heads = s.kv_heads = heads;
  s.head_dim = s.value_dim = hidden / heads;
  s.ffn = 4 * hidden;
  s.vocab = 51200;
  s.seq = seq;
  s.gated = false;
  s.dropout = s.learned_positions = s.tied = true;
  c.practice.attention = AttentionKernel::FusedSoftmax;
  c.numerics.grad_bytes = c.numerics.reduce_bytes = 2;
  c.layout.pp = pp;
  c.layout.micro = micro;
  return c;
}

TEST(Activations, EqualTheTableOfTheRecomputationPaper) {
  // Bytes per layer: sbh (34 + 5as/h), and what tensor and sequence parallel leave of it.
  Case c = gpt(48, 6144, 64, 2048, 4, 1);
  const double sbh = 2048.0 * 4 * 6144, scores = 5.0 * 64 * 2048 * 2048 * 4;
  const double sums = 2048.0 * 4 * 64 * 4;  // log-sum-exp, which the paper leaves out
  EXPECT_NEAR(kept_bytes(c, false), 34 * sbh + scores + sums, 1);
  c.layout.tp = 8;
  EXPECT_NEAR(kept_bytes(c, false), sbh * (10 + 24 / 8.0) + (scores + sums) / 8, 1);
  c.layout.sequence = true;
  EXPECT_NEAR(kept_bytes(c, false), (34 * sbh + scores + sums) / 8, 1);
  c.layout.recompute = Recompute::Selective;
  EXPECT_NEAR(kept_bytes(c, false), (34 * sbh + sums) / 8, 1);
  c.layout.recompute = Recompute::Full;
  EXPECT_NEAR(kept_bytes(c, false), 2 * sbh / 8, 1);
}

TEST(Memory, EqualsTheZeroBubblePapersMeasurements) {
  struct Row {
    int64_t layers, hidden, heads, micro;
    int pp;
    ScheduleKind schedule;
    double gib;
  };
  const Constants k;
  for (const Row& row : {Row{22, 2304, 24, 6, 8, ScheduleKind::OneFOneB, 27.94},
                         Row{30, 4096, 32, 3, 8, ScheduleKind::OneFOneB, 36.32},
                         Row{46, 5120, 40, 1, 16, ScheduleKind::OneFOneB, 29.80},
                         Row{62, 6144, 48, 1, 32, ScheduleKind::OneFOneB, 40.05},
                         Row{30, 4096, 32, 3, 8, ScheduleKind::ZbH2, 65.19},
                         Row{62, 6144, 48, 1, 32, ScheduleKind::ZbH2, 68.92}}) {
    Case c = gpt(row.layers, row.hidden, row.heads, 1024, row.micro, row.pp);
    c.layout.schedule = row.schedule;
    c.global_batch = row.micro * 96;
    const double gib = memory_use(c, k).allocated() / (1024.0 * 1024 * 1024);
    EXPECT_NEAR(gib / row.gib, 1, 0.04) << row.hidden << " " << name_of(row.schedule);
  }
}

TEST(Memory, InFlightMicroBatchesAreThoseOfTheSchedules) {
  struct Kind {
    ScheduleKind schedule;
    int chunks;
  };
  const StageCost one{.activation_memory = 1, .memory_for_weight_grad = 1};
  for (const Kind kind : {Kind{ScheduleKind::Gpipe, 1}, Kind{ScheduleKind::OneFOneB, 1},
                          Kind{ScheduleKind::Interleaved, 2}, Kind{ScheduleKind::Interleaved, 4},
                          Kind{ScheduleKind::ZbH1, 1}, Kind{ScheduleKind::ZbH2, 1}})
    for (const int pp : {2, 4, 8}) {
      Layout layout;
      layout.pp = pp;
      layout.schedule = kind.schedule;
      layout.chunks = kind.chunks;
      ScheduleRequest request;
      request.name = name_of(kind.schedule);
      request.ranks = pp;
      request.micros = 32;
      request.chunks = kind.chunks;
      const std::vector<double> peak = peak_memory(make_schedule(request), std::span(&one, 1));
      for (int rank = 0; rank < pp; ++rank)
        EXPECT_NEAR(in_flight(layout, 32, rank), peak[static_cast<size_t>(rank)] / kind.chunks,
                    kind.schedule == ScheduleKind::ZbH1 ? rank : 1e-9)
            << request.name << " chunks " << kind.chunks << " pp " << pp << " rank " << rank;
    }
}

// Under ZB-H1 every rank holds as much as the first of 1F1B; the last mostly between the halves.
TEST(Memory, HalvesOfABackwardAreCountedInTheSchedule) {
  Layout layout;
  layout.pp = 4;
  layout.schedule = ScheduleKind::ZbH1;
  const ScheduleHeld held = held_passes(layout, 64);
  const auto most = [](const std::vector<HeldPasses>& rank, auto of) {
    double out = 0;
    for (const HeldPasses& pass : rank) out = std::max(out, of(pass));
    return out;
  };
  const auto forward = [](const HeldPasses& pass) { return pass.forward; };
  const auto halves = [](const HeldPasses& pass) { return pass.halves; };
  const auto heads = [](const HeldPasses& pass) { return pass.heads; };
  EXPECT_EQ(most(held[0], forward), 4);
  EXPECT_EQ(most(held[2], forward), 1);
  EXPECT_GE(most(held[2], halves), 2);
  EXPECT_GE(most(held[2], heads), 3);
  EXPECT_EQ(most(held[0], heads), 0);
  EXPECT_EQ(most(held[2], [](const HeldPasses& pass) { return pass.waiting; }), 1);
  layout.schedule = ScheduleKind::OneFOneB;
  EXPECT_EQ(most(held_passes(layout, 64)[2], halves), 0);
}

TEST(Memory, StatesAreThoseOfTheZeroPaper) {
  // 7.5B parameters on 64 ranks: 120, 31.4, 16.6 and 1.9 GB.
  Case c = gpt(36, 4096, 32, 2048, 1, 1);
  c.numerics.reduce_bytes = 2;
  const double count = count_parameters(c.shape).total;
  const auto per_parameter = [&](int zero) {
    Case with = c;
    with.layout.zero = zero;
    (zero > 0 ? with.layout.shard : with.layout.dp) = 64;
    with.global_batch = 64;
    const MemoryUse use = memory_use(with, Constants{});
    return (use.weights + use.gradients + use.optimizer) / count;
  };
  EXPECT_NEAR(per_parameter(0), 16, 0.01);
  EXPECT_NEAR(per_parameter(1), 4 + 12 / 64.0, 0.01);
  EXPECT_NEAR(per_parameter(2), 2 + 14 / 64.0, 0.01);
  EXPECT_NEAR(per_parameter(3), 14 / 64.0, 0.01);  // the fp32 shard is the master copy
}

TEST(Memory, DualPipeHoldsTwoStages) {
  Case c = gpt(32, 4096, 32, 2048, 1, 8);
  c.layout.dp = 4;
  c.global_batch = 64;
  c.layout.schedule = ScheduleKind::DualPipeV;
  const MemoryUse folded = memory_use(c, Constants{});
  c.layout.schedule = ScheduleKind::DualPipe;
  const MemoryUse both = memory_use(c, Constants{});
  EXPECT_DOUBLE_EQ(both.weights, 2 * folded.weights);
  EXPECT_DOUBLE_EQ(both.optimizer, 2 * folded.optimizer);
  EXPECT_DOUBLE_EQ(both.activations, folded.activations);
}

// Experts on ep ranks shard over all ranks with the same ones, replicas of the rest included;
// undivided, with the rest of their layer.
TEST(Memory, ExpertsShardOverTheRanksWithTheSameOnes) {
  Case c = gpt(8, 1024, 16, 2048, 1, 1);
  c.shape.experts = 64;
  c.shape.experts_per_token = 4;
  c.shape.expert_ffn = 4096;
  c.layout.dp = 4;
  c.layout.shard = 8;
  c.layout.zero = 1;
  c.global_batch = 32;
  const Parameters counts = count_parameters(c.shape);
  const double experts = 8 * counts.experts, rest = counts.total - experts;
  EXPECT_DOUBLE_EQ(memory_use(c, Constants{}).optimizer, 12 * (experts + rest) / 8);
  c.layout.ep = 2;
  EXPECT_EQ(c.layout.expert_copies(), 16);
  EXPECT_DOUBLE_EQ(memory_use(c, Constants{}).optimizer, 12 * (experts / 2 / 16 + rest / 8));
}

TEST(Memory, TheLargestModelOnEightGpusIsThatOfTheLecture) {
  // 80e9 bytes, moments of 2 bytes, states only: 6.67, 16, 24.6 and 53.3 billion parameters.
  const double lecture[] = {6.667, 16, 24.615, 53.333}, fp32[] = {5, 14.545, 21.333, 40};
  for (int zero = 0; zero <= 3; ++zero) {
    EXPECT_NEAR(80 / state_bytes_per_parameter(zero, 8, 2), lecture[zero], 0.001);
    EXPECT_NEAR(80 / state_bytes_per_parameter(zero, 8, 4), fp32[zero], 0.001);
  }
}

// The dry run of this layout needs 72.45 GiB for activations and logits in fp32.
TEST(Memory, ActivationsOfFp32AreThoseOfTheDryRun) {
  static DiskStorage storage;
  Case c;
  c.hardware = find_hardware(storage, "B200");
  c.shape = shape_of(*model_preset("llama-8b"), 4096);
  c.layout = {.shard = 8, .zero = 2, .micro = 2};
  c.global_batch = 16;
  const double sums = 2 * 4096.0 * 32 * 4;  // log-sum-exp, fp32 in both
  const double narrow = kept_bytes(c, false);
  c.numerics.format = NumberFormat::Fp32;
  EXPECT_DOUBLE_EQ(kept_bytes(c, false) - sums, 2 * (narrow - sums));
  const MemoryUse use = memory_use(c, Constants{});
  EXPECT_NEAR((use.activations + use.logits) / kGiB / 72.45, 1, 0.1);
}

TEST(Stages, EmbeddingAndHeadCountAsLayersWhereTheRestDoesNotDivide) {
  EXPECT_EQ(stage_layers(126, 8).middle, 16);
  EXPECT_EQ(stage_layers(126, 8).first, 15);
  EXPECT_EQ(stage_layers(126, 16).last, 7);
  EXPECT_EQ(stage_layers(80, 8).last, 10);
}

}  // namespace
}  // namespace sextant
