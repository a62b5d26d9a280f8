// Each setting of a configuration changes the number that it should, or is named as not priced.
#include "plan/config_case.h"

#include <gtest/gtest.h>

#include "base/parse.h"
#include "config/load.h"
#include "plan/layout_terms.h"

namespace sextant {
namespace {

using Overrides = std::vector<std::string>;

Config dense(const Overrides& settings) {
  return parse_config(
             "[model]\npreset = \"llama-8b\"\nseq = 8192\n[batch]\nglobal = 64\nmicro = 1\n"
             "[parallel]\nshard = 2\nzero = 1\ntp = 2\nsequence = true\npp = 4\n"
             "[precision]\ncompute = \"bf16\"\n",
             "run.toml", settings)
      .config;
}

Config sparse(const Overrides& settings) {
  return parse_config(
             "[model]\npreset = \"mixtral-8x7b\"\nseq = 4096\n[batch]\nglobal = 32\nmicro = 1\n"
             "[parallel]\nshard = 16\nzero = 1\nep = 8\n[precision]\ncompute = \"bf16\"\n",
             "run.toml", settings)
      .config;
}

Case priced(const Config& config) {
  DiskStorage storage;
  return case_of(config, {find_hardware(storage, "H100"), 16});
}

StepTerms time_of(const Case& asked) {
  return simulated_step_time(asked, Constants{}, 400'000);
}

MemoryUse memory_of(const Case& asked) {
  return memory_use(asked, Constants{});
}

TEST(ConfigCase, AllSettingsOfAPlainConfigurationArePriced) {
  EXPECT_EQ(join(not_priced(dense({})), "; "), "");
  EXPECT_EQ(join(not_priced(sparse({})), "; "), "");
}

TEST(ConfigCase, EightBitsMakeMatrixProductsFasterByRecipe) {
  const double half = time_of(priced(dense({}))).gemm;
  const double tensor = time_of(priced(dense({"precision.compute=fp8"}))).gemm;
  const Config blocks = dense({"precision.compute=fp8", "precision.fp8_recipe=block"});
  EXPECT_LT(tensor, 0.8 * half);
  EXPECT_GT(time_of(priced(blocks)).gemm, 1.2 * tensor);
  EXPECT_NE(join(not_priced(blocks), "; ").find("precision.fp8_recipe = block"), std::string::npos);
  const Config delayed = dense({"precision.compute=fp8", "precision.fp8_recipe=delayed"});
  EXPECT_NE(join(not_priced(delayed), "; ").find("fp8_recipe = delayed"), std::string::npos);
}

// docs/precision.md: 18, 16, 12 and 8 bytes a parameter; here optimizer states are halved.
TEST(ConfigCase, StatesHaveTheBytesOfTheirRecipe) {
  const auto bytes = [](const Overrides& settings) {
    Config config = dense(settings);
    config.parallel.zero = 0;
    config.parallel.dp = 2;
    config.parallel.shard = 1;
    const MemoryUse use = memory_of(priced(config));
    return (use.weights + use.gradients + use.optimizer) / use.weights * 2;
  };
  EXPECT_NEAR(bytes({}), 18, 1e-6);
  EXPECT_NEAR(bytes({"precision.grads=bf16"}), 16, 1e-6);
  EXPECT_NEAR(bytes({"precision.grads=bf16", "precision.moments=bf16"}), 12, 1e-6);
  EXPECT_NEAR(bytes({"precision.grads=bf16", "precision.moments=bf16", "precision.master=none"}), 8,
              1e-6);
  EXPECT_NEAR(bytes({"optim.name=sgd", "optim.momentum=0.9"}), 14, 1e-6);
  EXPECT_NEAR(bytes({"optim.name=sgd", "optim.momentum=0"}), 10, 1e-6);
}

TEST(ConfigCase, NarrowGradientsAndMomentsMoveFewerBytes) {
  const Case plain = priced(dense({})), narrow = priced(dense({"precision.grads=bf16"}));
  EXPECT_LT(axis_bytes(narrow).data, axis_bytes(plain).data);
  EXPECT_LT(time_of(priced(dense({"precision.moments=bf16"}))).optimizer, time_of(plain).optimizer);
}

TEST(ConfigCase, UnevenStagesTakeTheTimeAndTheMemoryOfTheFullest) {
  const Case even = priced(dense({})), uneven = priced(dense({"parallel.split=14,6,6,6"}));
  EXPECT_EQ(stage_layers(uneven).first, 14);
  EXPECT_EQ(stage_layers(uneven).middle, 6);
  EXPECT_GT(time_of(uneven).total(), 1.3 * time_of(even).total());
  EXPECT_GT(memory_of(uneven).total(), 1.2 * memory_of(even).total());
  const Case middle = priced(dense({"parallel.split=6,6,14,6"}));
  EXPECT_EQ(stage_layers(middle).middle, 14);
  // A V has stages r and 7 - r on rank r.
  const Case folded = priced(dense({"parallel.schedule=zb-v", "parallel.split=1,2,3,4,5,6,7,4"}));
  EXPECT_EQ(stage_layers(folded).first, 5);
  EXPECT_EQ(stage_layers(folded).middle, 9);
  EXPECT_EQ(stage_layers(folded).last, 9);
}

TEST(ConfigCase, ChunkedLogitsTakeLessMemoryAndMoreTime) {
  const Case kept = priced(dense({"parallel.pp=1", "parallel.shard=8"}));
  const Case chunked =
      priced(dense({"parallel.pp=1", "parallel.shard=8", "memory.logits=chunked"}));
  EXPECT_LT(memory_of(chunked).logits, 0.1 * memory_of(kept).logits);
  EXPECT_GT(time_of(chunked).recompute, time_of(kept).recompute);
}

TEST(ConfigCase, OverlapHidesTensorParallelCommunication) {
  EXPECT_LT(time_of(priced(dense({"parallel.tp_overlap=true"}))).tp,
            0.8 * time_of(priced(dense({}))).tp);
}

TEST(ConfigCase, RecomputationOfSomeLayersLiesBetween) {
  const auto of = [](const char* layers) {
    return priced(
        dense({"memory.recompute=full", std::string("memory.recompute_layers=") + layers}));
  };
  const Case some = of("4"), all = of("0"), none = priced(dense({}));
  EXPECT_NEAR(time_of(some).recompute, time_of(all).recompute / 2, 1e-6);  // 4 of 8 of a stage
  EXPECT_GT(memory_of(some).activations, memory_of(all).activations);
  EXPECT_LT(memory_of(some).activations, memory_of(none).activations);
}

TEST(ConfigCase, RoomForExpertsIsMemory) {
  EXPECT_GT(memory_of(priced(sparse({"memory.experts=4"}))).activations,
            1.2 * memory_of(priced(sparse({"memory.experts=2"}))).activations);
}

TEST(ConfigCase, ImbalanceOfExpertsCostsTime) {
  const Case even = priced(sparse({}));
  Case uneven = even;
  uneven.practice.imbalance = 1.5;
  EXPECT_GT(time_of(uneven).gemm, 1.1 * time_of(even).gemm);
  EXPECT_GT(time_of(uneven).ep, 1.2 * time_of(even).ep);
}

TEST(ConfigCase, WhatHasNoModelIsNamed) {
  struct Named {
    Config config;
    const char* text;
  };
  for (const Named& one :
       {Named{sparse({"parallel.ep_node=4"}), "parallel.ep_node = 4"},
        Named{sparse({"train.capacity_factor=1.25"}), "train.capacity_factor = 1.25"},
        Named{dense({"optim.post_validation=true"}), "optim.post_validation"},
        Named{dense({"parallel.pp=1", "parallel.cp=4", "parallel.cp_kind=ring+ulysses",
                     "parallel.ulysses=2"}),
              "parallel.cp_kind = ring+ulysses"}}) {
    const std::vector<std::string> named = not_priced(one.config);
    ASSERT_EQ(named.size(), 1u) << one.text;
    EXPECT_NE(named[0].find(one.text), std::string::npos) << named[0];
  }
}

}  // namespace
}  // namespace sextant
