#include "program/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "config/model_presets.h"
#include "program/pipeline.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

Blueprint layered(int64_t layers, const char* preset = "tiny") {
  ModelConfig model = *model_preset(preset);
  model.layers = layers;
  return make_blueprint(model);
}

std::vector<std::string> texts(const Blueprint& blueprint, const std::vector<Range>& stages) {
  std::vector<std::string> out;
  for (const Range& stage : stages) out.push_back(layers_text(blueprint, stage));
  return out;
}

using Texts = std::vector<std::string>;
using Counts = std::vector<int>;

TEST(Stages, TwentyFourBlocksOnFourAreSixEach) {
  const Blueprint blueprint = layered(24);
  EXPECT_EQ(texts(blueprint, split_stages(blueprint, 4, "even")),
            (Texts{"embedding, layers 0-5", "layers 6-11", "layers 12-17", "layers 18-23, head"}));
}

TEST(Stages, InterleavedRanksHoldEverySecondPair) {
  const Blueprint blueprint = layered(8);
  ParallelConfig parallel;
  parallel.pp = parallel.chunks = 2;
  parallel.schedule = "interleaved";
  const Pipeline pipeline = make_pipeline(blueprint, parallel, 4);
  EXPECT_EQ(texts(blueprint, pipeline.stages),
            (Texts{"embedding, layers 0-1", "layers 2-3", "layers 4-5", "layers 6-7, head"}));
  // Layers of the blueprint: the embedding, then two per block.
  EXPECT_EQ(part_of(blueprint, pipeline, 0).layers,
            (std::vector<size_t>{0, 1, 2, 3, 4, 9, 10, 11, 12}));
  EXPECT_EQ(part_of(blueprint, pipeline, 1).layers,
            (std::vector<size_t>{5, 6, 7, 8, 13, 14, 15, 16, 17}));
}

TEST(Stages, AListIsTakenAsItIs) {
  const Blueprint blueprint = layered(8);
  EXPECT_EQ(texts(blueprint, split_stages(blueprint, 4, "3,2,2,1")),
            (Texts{"embedding, layers 0-2", "layers 3-4", "layers 5-6", "layer 7, head"}));
  EXPECT_EQ(texts(blueprint, split_stages(blueprint, 3, "0,8,0")),
            (Texts{"embedding", "layers 0-7", "head"}));
}

TEST(Stages, WhatCannotBeIsRefusedWithWhatWould) {
  const Blueprint blueprint = layered(6);
  EXPECT_ERROR(split_stages(blueprint, 4, "even"), Config,
               "model.layers = 6 do not divide into 4 stages");
  EXPECT_ERROR(split_stages(blueprint, 4, "even"), Config, "take 1, 2, 3, 6 stages");
  EXPECT_ERROR(split_stages(blueprint, 4, "even"), Config, "parallel.split = balanced, which is ");
  EXPECT_ERROR(split_stages(blueprint, 12, "even"), Config,
               "or with parallel.split = balanced at most 8 stages");
  EXPECT_ERROR(split_stages(blueprint, 4, "2,2,2"), Config, "lists 3 stages");
  EXPECT_ERROR(split_stages(blueprint, 3, "2,2,3"), Config, "has 7 layers; model.layers is 6");
  EXPECT_ERROR(split_stages(blueprint, 3, "3,0,3"), Config, "stage 1 has no layer");
  EXPECT_ERROR(split_stages(blueprint, 3, "3,x,3"), Config, "'x' is no number of layers");
  EXPECT_ERROR(split_stages(blueprint, 3, "-1,4,3"), Config, "'-1' is no number of layers");
  EXPECT_ERROR(split_stages(blueprint, 9, "balanced"), Config, "at most 8");
}

TEST(Stages, NoLayerIsEverLeftOut) {
  for (int64_t layers = 1; layers <= 13; ++layers)
    for (int stages = 1; stages <= layers + 2; ++stages)
      for (const char* split : {"even", "balanced"}) {
        if (layers % stages != 0 && split[0] == 'e') continue;
        const Blueprint blueprint = layered(layers);
        int64_t at = 0;
        for (const Range& stage : split_stages(blueprint, stages, split)) {
          EXPECT_EQ(stage.begin, at);
          EXPECT_GT(stage.size(), 0);
          at = stage.end;
        }
        EXPECT_EQ(at, 2 * layers + 2) << layers << " on " << stages << ", " << split;
      }
}

TEST(Stages, CostsAreCountedByHand) {
  ModelConfig model = *model_preset("tiny");
  model.layers = 1;
  model.hidden = 4;
  model.heads = model.kv_heads = model.head_dim = 2;
  model.ffn = 8;
  model.vocab = 5;
  model.seq = 3;
  const Blueprint blueprint = make_blueprint(model);
  const LayerCost embedding = estimate_cost(blueprint, 0), attention = estimate_cost(blueprint, 1),
                  mlp = estimate_cost(blueprint, 2), head = estimate_cost(blueprint, 3);
  EXPECT_EQ(embedding.forward, 4);  // adds up one row
  EXPECT_EQ(embedding.input, 0);
  EXPECT_EQ(embedding.weight, 4);
  // qkv 12 x 4 and out 4 x 4, 2 FLOPs each; scores and values over half of 3 tokens: 24.
  EXPECT_EQ(attention.forward, 2 * 64 + 24);
  EXPECT_EQ(attention.input, 2 * 64 + 60);
  EXPECT_EQ(attention.weight, 2 * 64);
  EXPECT_EQ(mlp.total(), 3 * 2 * 64);
  EXPECT_EQ(head.forward, 2 * 20);
  const StageCost first = stage_cost(blueprint, {0, 3}), last = stage_cost(blueprint, {3, 4});
  EXPECT_DOUBLE_EQ(first.forward_time, 1 + 4 / 280.0);  // a block's forward, 152 + 128, is 1
  EXPECT_DOUBLE_EQ(last.weight_grad_time, 40 / 280.0);
}

TEST(Stages, BalanceGivesAHeavyHeadLessBesides) {
  EXPECT_EQ(balance({0, 1, 1, 1, 1, 1, 1, 1, 1, 0}, 4), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(balance({0, 1, 1, 1, 1, 1, 1, 2}, 4), (Counts{2, 2, 2, 0}));
  EXPECT_EQ(balance({2, 1, 1, 1, 1, 1, 1, 2}, 5), (Counts{0, 2, 2, 2, 0}));
  EXPECT_EQ(balance({0, 1, 1, 1, 1, 3}, 3), (Counts{2, 2, 0}));
  EXPECT_EQ(balance({9, 1, 1, 9}, 1), (Counts{2}));
}

// Tries every split.
void try_all(const std::vector<double>& costs, int stages, Counts& counts,
             std::pair<double, double>& best) {
  const int blocks = static_cast<int>(costs.size()) - 2;
  const int used = std::accumulate(counts.begin(), counts.end(), 0);
  const auto stage = static_cast<int>(counts.size());
  if (stage == stages) {
    if (used != blocks) return;
    double most = 0, squares = 0;
    auto next = costs.begin() + 1;
    for (int i = 0; i < stages; ++i) {
      const int count = counts[static_cast<size_t>(i)];
      const double cost = std::accumulate(next, next + count, 0.0) + (i == 0 ? costs.front() : 0) +
                          (i == stages - 1 ? costs.back() : 0);
      next += count;
      most = std::max(most, cost);
      squares += cost * cost;
    }
    best = std::min(best, {most, squares});
    return;
  }
  const bool is_end = stages > 1 && (stage == 0 || stage == stages - 1);
  for (int count = is_end ? 0 : 1; count <= blocks - used; ++count) {
    counts.push_back(count);
    try_all(costs, stages, counts, best);
    counts.pop_back();
  }
}

TEST(Stages, NoSplitIsBetterThanTheBalancedOne) {
  unsigned state = 1;
  const auto random = [&state] { return (state = state * 1664525u + 1013904223u) >> 24; };
  for (int round = 0; round < 200; ++round) {
    const int blocks = 1 + static_cast<int>(random() % 7);
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(blocks + 2));
    std::vector<double> costs;
    for (int i = 0; i < blocks + 2; ++i) costs.push_back(1 + random() % 16);
    std::pair<double, double> best{1e9, 1e9}, got{1e9, 1e9};
    Counts counts;
    try_all(costs, stages, counts, best);
    Counts balanced = balance(costs, stages);
    try_all(costs, stages, balanced, got);  // all counts given: only evaluates this split
    EXPECT_EQ(got, best) << blocks << " blocks, " << stages << " stages, round " << round;
  }
}

// The head of a large vocabulary costs several blocks: a balanced split gives its stage fewer.
TEST(Stages, ABalancedSplitOfManyLayersIsQuickOrRefused) {
  std::vector<double> costs(4098, 1);
  costs.front() = 0;
  const Counts counts = balance(costs, 64);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 4096);
  for (size_t stage = 0; stage < 64; ++stage)
    EXPECT_NEAR(counts[stage] + (stage == 63 ? 1 : 0), 64.5, 0.5) << stage;
  costs.back() = 3000;  // then a stage may have any number of layers
  EXPECT_ERROR(balance(costs, 1024), Config,
               "parallel.split = balanced of 4096 layers into 1024 stages");
}

TEST(Stages, ABalancedSplitOfAModelEvensItsCosts) {
  const auto worst = [](const Blueprint& blueprint, const std::string& split) {
    double most = 0;
    for (const Range& stage : split_stages(blueprint, 4, split)) {
      const StageCost cost = stage_cost(blueprint, stage);
      most = std::max(most, cost.forward_time + cost.input_grad_time + cost.weight_grad_time);
    }
    return most;
  };
  const Blueprint blueprint = make_blueprint(*model_preset("gpt2-124m"));
  EXPECT_LT(worst(blueprint, "balanced"), 0.8 * worst(blueprint, "even"));
}

}  // namespace
}  // namespace sextant
