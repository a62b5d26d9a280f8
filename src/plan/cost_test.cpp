// Parameters, FLOPs and times against published numbers and formulas computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.h"
#include "blueprint/blueprint.h"
#include "config/model_presets.h"
#include "plan/collective.h"
#include "plan/gemm_time.h"
#include "plan/memory.h"
#include "plan/step_time.h"

namespace sextant {
namespace {

const Hardware& gpu(const char* name) {
  static DiskStorage storage;
  static std::map<std::string, Hardware> known;
  if (!known.contains(name)) known[name] = find_hardware(storage, name);
  return known[name];
}

ModelShape preset(const char* name, int64_t seq) {
  return shape_of(*model_preset(name), seq);
}

ModelShape deepseek_v3() {
  ModelShape s;
  s.layers = 61;
  s.hidden = 7168;
  s.heads = s.kv_heads = 128;
  s.head_dim = 128;
  s.rope_dim = 64;
  s.value_dim = 128;
  s.q_rank = 1536;
  s.kv_rank = 512;
  s.ffn = 18432;
  s.vocab = 129280;
  s.seq = 4096;
  s.experts = 256;
  s.experts_per_token = 8;
  s.expert_ffn = s.shared_ffn = 2048;
  s.dense_layers = 3;
  return s;
}

// Norms, biases and the padding of no preset make up more than a small part.
TEST(Cost, CountsTheParametersOfEveryPreset) {
  for (const std::string& name : model_preset_names()) {
    const ModelConfig model = *model_preset(name);
    const Blueprint blueprint = make_blueprint(model);
    const auto all = static_cast<double>(blueprint.parameters());
    const auto active = static_cast<double>(blueprint.active_parameters());
    const Parameters counted = count_parameters(shape_of(model, model.seq));
    const double tolerance = all < 10e6 ? 0.03 : 0.005;
    EXPECT_NEAR(counted.total / all, 1, tolerance) << name;
    // Of these the embedding is not counted, but the head of a tied model is.
    EXPECT_NEAR((counted.active + (model.tied ? 0 : counted.embedding)) / active, 1,
                model.family == Family::Gpt2 ? 0.5 : tolerance)
        << name;
  }
}

// 16 of 64 tokens: 1 + ... + 16 pairs, then 16 each, but for half a pair a token.
TEST(Cost, CountsThePairsOfAWindowInEveryLayer) {
  const ModelShape windowed = preset("tiny-mistral", 64);
  EXPECT_EQ(attention_pairs(windowed), 16 * (64 - 8));
  EXPECT_EQ(attention_pairs(preset("tiny-mistral", 16)), 16 * 16 / 2);
  EXPECT_EQ(attention_pairs(preset("tiny-llama", 64)), 64 * 64 / 2);
  ModelShape alternating = windowed;
  alternating.alternates = true;
  EXPECT_EQ(attention_pairs(alternating), (64 * 64 / 2 + 64 * 16) / 2);
  ModelShape none = windowed;
  none.window = 0;
  EXPECT_NEAR(model_flops(none, 64) - model_flops(windowed, 64),
              6.0 * 8 * 64 * 2 * (64 * 64 / 2 - 16 * (64 - 8)), 1);
}

Case llama_70b(int tp, int pp, int shard, int zero) {
  Case c;
  c.hardware = gpu("H100");
  c.shape = preset("llama-70b", 8192);
  c.layout.tp = tp;
  c.layout.sequence = tp > 1;
  c.layout.pp = pp;
  c.layout.shard = shard;
  c.layout.zero = zero;
  c.global_batch = 512;
  return c;
}

TEST(Parameters, EqualThePublishedCounts) {
  EXPECT_NEAR(count_parameters(preset("llama-8b", 8192)).total / 1e9, 8.03, 0.01);
  EXPECT_NEAR(count_parameters(preset("llama-70b", 8192)).total / 1e9, 70.55, 0.05);
  EXPECT_NEAR(count_parameters(preset("llama-405b", 8192)).total / 1e9, 405.9, 0.2);
  EXPECT_NEAR(count_parameters(deepseek_v3()).total / 1e9, 671, 1);
  EXPECT_NEAR(count_parameters(deepseek_v3()).active / 1e9, 37, 1);
}

TEST(Flops, EqualTheFormulaOfTheMegatronPaper) {
  // 72 B s l h^2 (1 + s / 6h + V / 12lh) with every pair of tokens counted; ours counts the causal
  // half.
  const ModelShape s = preset("gpt3-175b", 2048);
  const double h = 12288, l = 96, v = 50257, seq = 2048, tokens = 1536 * seq;
  const double published = 72 * tokens * l * h * h * (1 + seq / (12 * h) + v / (12 * l * h));
  EXPECT_NEAR(model_flops(s, tokens) / published, 1, 0.001);
}

TEST(Gemm, IsArithmeticPlusTheShareOfItsTrafficThatIsNotHidden) {
  const Constants k;
  const Hardware& a100 = gpu("A100");
  const double m = 4096, n = 12288, depth = 4096;
  const double arithmetic = 2 * m * n * depth / (312e12 * 0.869 * k.gemm);
  const double traffic = 2 * (m * depth + depth * n + m * n) / 2.039e12;
  EXPECT_NEAR(gemm_seconds(a100, k, NumberFormat::Bf16, m, n, depth),
              arithmetic + k.gemm_memory * traffic, 1e-9);
}

TEST(StepSeconds, RecomputationAddsOneForwardOfEveryLayer) {
  const Constants k;
  Case none = llama_70b(8, 1, 8, 1), full = none;
  full.layout.recompute = Recompute::Full;
  const LayerTime layer = layer_time(none, k, PricedLayer::Dense);
  const double micros = static_cast<double>(none.micros());
  EXPECT_NEAR(step_time(full, k).recompute, 80 * micros * layer.forward, 1e-9);
  EXPECT_NEAR(step_time(full, k).tp - step_time(none, k).tp, 80 * micros * layer.tp_forward, 1e-9);
}

TEST(StepSeconds, OneFOneBHasTheTextbookBubble) {
  const Constants k;
  Case c = llama_70b(8, 8, 1, 0);
  c.practice.only_layers = true;  // equal stages
  const StepTerms time = step_time(c, k);
  const double work = time.total() - time.pipeline - time.messages - time.data - time.optimizer;
  EXPECT_NEAR(time.pipeline / work, 7.0 / static_cast<double>(c.micros()), 1e-9);
}

TEST(StepSeconds, TheClosedFormAndTheSimulatedScheduleAgree) {
  const Constants k;
  struct Kind {
    ScheduleKind schedule;
    int chunks;
  };
  for (const Kind kind : {Kind{ScheduleKind::Gpipe, 1}, Kind{ScheduleKind::OneFOneB, 1},
                          Kind{ScheduleKind::Interleaved, 2}, Kind{ScheduleKind::Interleaved, 5},
                          Kind{ScheduleKind::ZbH1, 1}, Kind{ScheduleKind::ZbH2, 1}})
    for (const int pp : {2, 4, 8})
      for (const int64_t micros : {16, 32, 64}) {
        Case c = llama_70b(8, pp, 1, 0);
        c.layout.schedule = kind.schedule;
        c.layout.chunks = kind.chunks;
        c.global_batch = micros;
        const double closed = step_time(c, k).total();
        const double simulated = simulated_step_time(c, k, 1 << 20).total();
        EXPECT_NEAR(simulated / closed, 1, 0.05)
            << name_of(kind.schedule) << " chunks " << kind.chunks << " pp " << pp << " micros "
            << micros;
      }
}

TEST(StepSeconds, AFasterLinkNeverMakesALayoutSlower) {
  const Constants k;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Random random(seed, "layouts");
    uint64_t drawn = 0;
    const auto below = [&](uint64_t bound) { return random.below(bound, drawn++); };
    Case c = llama_70b(1 << below(4), 1 << below(4), 1 << below(6), static_cast<int>(below(4)));
    c.layout.micro = 1 << below(3);
    c.layout.cp = 1 << below(2);
    c.global_batch = c.layout.data_ranks() * c.layout.micro * 32;
    const double before = step_time(c, k).total();
    Case faster = c;
    faster.hardware.link *= 1.5;
    faster.hardware.nic *= 1.5;
    EXPECT_LE(step_time(faster, k).total(), before * (1 + 1e-12)) << seed;
  }
}

// 13 billion parameters on 64 A100, as one program runs them: every rank sums all gradients in fp32
// and sends between passes.
Case eager_case(int pp, int shard) {
  Case c;
  c.hardware = gpu("A100");
  c.shape = preset("llama-8b", 2048);
  c.layout.zero = 1;
  c.layout.pp = pp;
  c.layout.shard = shard;
  c.practice.grads_overlap = false;
  c.global_batch = int64_t{32} * shard;
  return c;
}

TEST(StepTime, AnAllReduceInZeroOneMovesTwiceTheBytes) {
  Case c = eager_case(1, 64);
  const double scattered = state_traffic(c, Constants{}).dense.reduce;
  c.practice.sums_whole = true;
  EXPECT_NEAR(state_traffic(c, Constants{}).dense.reduce / scattered, 2, 0.05);
  c.layout.zero = 2;
  const double summed = state_traffic(c, Constants{}).dense.reduce;
  c.practice.sums_whole = false;
  EXPECT_EQ(state_traffic(c, Constants{}).dense.reduce, summed);
}

// A middle rank receives and sends one message in each direction for every micro-batch.
TEST(StepTime, MessagesBetweenPassesAreTimeOfTheRanks) {
  Case c = eager_case(4, 16);
  const double beside = simulated_step_time(c, Constants{}, 1 << 20).total();
  c.practice.sends_wait = true;
  const double waiting = simulated_step_time(c, Constants{}, 1 << 20).total();
  const double message = rank_times(c, Constants{}).message;
  const double micros = static_cast<double>(c.micros());
  EXPECT_GT(waiting - beside, (micros - 1) * message);
  EXPECT_LT(waiting - beside, 4 * (micros + 3) * message);
  EXPECT_NEAR(step_time(c, Constants{}).total() / waiting, 1, 0.03);
}

// What is reduced beside the backward pass leaves layer by layer, each with the latency of a ring.
TEST(StepTime, EachLayersGradientsPayTheLatencyOfTheirRing) {
  Case c;
  c.hardware = gpu("H100");
  c.shape = {.layers = 24,
             .hidden = 2048,
             .heads = 16,
             .kv_heads = 16,
             .head_dim = 128,
             .ffn = 8192,
             .vocab = 50304,
             .seq = 2048};
  c.layout.zero = 2;
  const auto reduce = [&](int shard, bool beside) {
    Case one = c;
    one.layout.shard = shard;
    one.layout.zero = beside ? 2 : 1;
    one.practice.grads_overlap = beside;
    return state_traffic(one, Constants{}).reduce();
  };
  const double hop = Constants{}.latency * 0.6e-6;  // the least that NCCL's table has
  EXPECT_GT(reduce(512, true) - reduce(128, true), 25 * 384 * hop);
  EXPECT_LT(reduce(512, false) - reduce(128, false), 0.2 * (reduce(512, true) - reduce(128, true)));
}

// Queries, keys and values of DeepSeek-V3 are made again from their latents, a tenth of their size.
TEST(LayerTime, SelectiveRecomputationMakesQueriesAgainFromLatents) {
  Case c;
  c.hardware = gpu("H100");
  c.shape = deepseek_v3();
  c.shape.seq = 4096;
  c.practice.attention = AttentionKernel::Library;
  c.global_batch = 1;
  const double all = kept_bytes(c, true),
               time = layer_time(c, Constants{}, PricedLayer::Experts).again;
  c.layout.recompute = Recompute::Selective;
  const double latents = 4096.0 * 2 * 128 * (192 + 192 + 128);
  EXPECT_GT(all - kept_bytes(c, true), latents);
  EXPECT_EQ(time, 0);
  EXPECT_GT(layer_time(c, Constants{}, PricedLayer::Experts).again, 0);
}

}  // namespace
}  // namespace sextant
