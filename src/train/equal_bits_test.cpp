#include "train/equal_bits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/load.h"
#include "train/preflight.h"

namespace sextant {
namespace {

using Settings = std::vector<std::string>;

Config config_of(const Settings& layout, int micros, bool tied,
                 const Settings& family = {"model.family=gpt2"}) {
  Settings settings = {"model.layers=4",
                       "model.hidden=32",
                       "model.heads=8",
                       "model.ffn=32",
                       "model.vocab=259",
                       "model.seq=16",
                       "batch.micro=1",
                       "batch.accumulation=" + std::to_string(micros),
                       tied ? "model.tied=true" : "model.tied=false"};
  settings.insert(settings.end(), family.begin(), family.end());
  for (const std::string& key : layout) settings.push_back("parallel." + key);
  return parse_config("", "test", settings).config;
}

// All 12 micro-batches of a step, divided over the data parallel ranks of both.
EqualBits compare(const Settings& a, const Settings& b, bool tied = false,
                  const Settings& family = {"model.family=gpt2"}) {
  const auto divided = [&](const Settings& layout) {
    const int ranks = data_ranks(config_of(layout, 1, tied, family).parallel);
    return config_of(layout, 12 / ranks, tied, family);
  };
  return equal_bits(divided(a), divided(b));
}

const Settings kOne = {};

TEST(EqualBits, OneMicroBatchPerRankIsAddedAsOnOneRank) {
  for (const Settings& layout : {Settings{"dp=12"},
                                 {"shard=12", "zero=1"},
                                 {"shard=12", "zero=2"},
                                 {"shard=12", "zero=3"}}) {
    const EqualBits bits = compare(layout, kOne);
    EXPECT_TRUE(bits.loss && bits.steps);
    EXPECT_TRUE(bits.gradients.contains("layers.3.mlp.down.weight"));
  }
  EXPECT_TRUE(compare({"dp=12"}, {"shard=12", "zero=3"}).steps);
}

TEST(EqualBits, RanksThatAccumulateAddInAnotherOrder) {
  for (const Settings& layout :
       {Settings{"dp=4"}, {"shard=4", "zero=1"}, {"shard=4", "zero=2"}, {"shard=4", "zero=3"}}) {
    const EqualBits bits = compare(layout, kOne);
    EXPECT_FALSE(bits.loss || bits.steps || !bits.gradients.empty());
  }
  EXPECT_TRUE(compare({"dp=4"}, {"shard=4", "zero=1"}).steps);
  EXPECT_FALSE(compare({"dp=4"}, {"shard=4", "zero=2"}).steps);
  EXPECT_TRUE(compare({"shard=4", "zero=2"}, {"shard=4", "zero=3"}).steps);
  EXPECT_FALSE(compare({"dp=2", "shard=6", "zero=3"}, {"dp=12"}).steps);
  EXPECT_TRUE(compare({"dp=2", "shard=6", "zero=1"}, {"dp=2", "shard=6", "zero=3"}).steps);
}

TEST(EqualBits, PipelinesAddAsOneRankExceptTiedWeightsAndDualPipe) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "dualpipe-v"}) {
    const Settings pipeline = {"pp=2", std::string("schedule=") + schedule};
    EXPECT_TRUE(compare(pipeline, kOne).steps) << schedule;
    const EqualBits tied = compare(pipeline, kOne, /*tied=*/true);
    EXPECT_FALSE(tied.steps || tied.gradients.contains("embedding.tokens.weight")) << schedule;
    EXPECT_TRUE(tied.loss && tied.gradients.contains("head.norm.weight")) << schedule;
  }
  const EqualBits dual = compare({"pp=2", "schedule=dualpipe"}, kOne);
  EXPECT_TRUE(dual.loss);
  EXPECT_TRUE(dual.gradients.empty());
  EXPECT_TRUE(compare({"pp=2"}, {"pp=2"}, /*tied=*/true).steps);
}

// A bucket can hold several micro-batches when their weight gradients wait.
TEST(EqualBits, ShardedGradientsOfSplitBackwardsAreNotPromised) {
  const Settings zero2 = {"shard=2", "zero=2"};
  EXPECT_TRUE(compare({"shard=2", "zero=2", "pp=2"}, zero2).steps);
  EXPECT_FALSE(compare({"shard=2", "zero=2", "pp=2", "schedule=zb-h1"}, zero2).steps);
  EXPECT_TRUE(
      compare({"shard=2", "zero=1", "pp=2", "schedule=zb-h1"}, {"shard=2", "zero=1"}).steps);
}

TEST(EqualBits, LayersOnSeveralRanksAddInAnotherOrder) {
  for (const Settings& layout : {Settings{"tp=2"}, {"cp=2"}, {"cp=2", "cp_kind=ulysses"}}) {
    const EqualBits bits = compare(layout, kOne);
    EXPECT_FALSE(bits.loss || bits.steps || !bits.gradients.empty());
    Settings piped = layout;
    piped.push_back("pp=2");
    EXPECT_TRUE(compare(piped, layout).steps);
  }
  EXPECT_FALSE(compare({"cp=2"}, {"cp=2", "cp_kind=allgather"}).loss);
  EXPECT_FALSE(compare({"tp=2", "tp_overlap=true"}, {"tp=2"}).loss);
  EXPECT_FALSE(compare({"tp=2"}, {"tp=4"}).loss);
}

const Settings kMixtral = {"model.family=mixtral", "model.kv_heads=4", "model.experts=12",
                           "model.experts_per_token=2", "model.expert_ffn=12"};

TEST(EqualBits, ExpertsWithoutReplicasAreAddedInOneProduct) {
  const auto of = [](const Settings& a, const Settings& b) {
    return compare(a, b, /*tied=*/false, kMixtral);
  };
  for (const Settings& layout :
       {Settings{"shard=12", "ep=12", "zero=1"}, {"shard=12", "ep=12", "zero=3"}})
    EXPECT_TRUE(of(layout, {"dp=12", "ep=12"}).steps);
  // Nodes sum a token's outputs first.
  EXPECT_FALSE(of({"dp=12", "ep=12", "ep_node=3"}, {"dp=12", "ep=12"}).loss);
  EXPECT_FALSE(of({"dp=12", "ep=12", "ep_node=3"}, {"dp=12", "ep=12", "ep_node=6"}).loss);
  EXPECT_TRUE(
      of({"shard=12", "ep=12", "zero=3", "ep_node=3"}, {"dp=12", "ep=12", "ep_node=3"}).steps);
  EXPECT_TRUE(of({"shard=4", "ep=4", "zero=1"}, {"dp=4", "ep=4"}).steps);
  // With replicas the products of several ranks are added.
  const EqualBits two = of({"shard=12", "ep=6", "zero=1"}, {"dp=12", "ep=6"});
  EXPECT_FALSE(two.steps || two.gradients.contains("layers.3.moe.experts.down.weight"));
  EXPECT_TRUE(two.loss && two.gradients.contains("layers.3.moe.router.weight"));
  // One rank adds a product per micro-batch.
  const EqualBits one = of({"dp=12", "ep=12"}, kOne);
  EXPECT_FALSE(one.steps || one.gradients.contains("layers.3.moe.experts.down.weight"));
  EXPECT_TRUE(one.gradients.contains("layers.3.moe.router.weight"));
}

// Where an expert has one scale, it is that of the tokens that a rank of ep computes.
TEST(EqualBits, ScalesOfExpertsInFp8DependOnTheTokensOfARank) {
  for (const auto& [recipe, is_equal] :
       {std::pair{"tensor", false}, {"delayed", false}, {"block", true}}) {
    Settings fp8 = kMixtral;
    fp8.insert(fp8.end(), {"precision.compute=fp8", std::string("precision.fp8_recipe=") + recipe});
    const auto loss = [&](const Settings& a, const Settings& b) {
      return compare(a, b, /*tied=*/false, fp8).loss;
    };
    EXPECT_EQ(loss({"dp=4", "ep=4"}, {"dp=4"}), is_equal) << recipe;
    EXPECT_TRUE(loss({"shard=4", "ep=4", "zero=3"}, {"dp=4", "ep=4"})) << recipe;
  }
}

TEST(EqualBits, SequenceParallelismChangesSumsOverTokensAlone) {
  const EqualBits bits = compare({"tp=4"}, {"tp=4", "sequence=false"});
  EXPECT_TRUE(bits.loss);
  EXPECT_FALSE(bits.steps);
  EXPECT_TRUE(bits.gradients.contains("layers.0.attention.qkv.weight"));
  for (const char* name : {"layers.0.attention.norm.weight", "embedding.positions.weight"})
    EXPECT_FALSE(bits.gradients.contains(name)) << name;
}

}  // namespace
}  // namespace sextant
