#include "blueprint/blueprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config/model_presets.h"

namespace sextant {
namespace {

Blueprint of(const char* preset) {
  return make_blueprint(*model_preset(preset));
}

TEST(Blueprint, CountsParametersAsPublished) {
  EXPECT_EQ(of("gpt2-124m").parameters(), 124'439'808);
  EXPECT_EQ(of("gpt2-1558m").parameters(), 1'557'611'200);
  EXPECT_EQ(of("llama-1b").parameters(), 1'235'814'400);
  EXPECT_EQ(of("llama-8b").parameters(), 8'030'261'248);
  EXPECT_EQ(of("llama-405b").parameters(), 405'853'388'800);
  EXPECT_EQ(of("qwen3-8b").parameters(), 8'190'735'360);
  EXPECT_EQ(of("qwen2.5-7b").parameters(), 7'615'616'512);
  EXPECT_EQ(of("mistral-7b").parameters(), 7'241'732'096);
}

TEST(Blueprint, HasTheBiasesThatHuggingFaceHas) {
  const auto biases = [](const ModelConfig& model) {
    const Blueprint blueprint = make_blueprint(model);
    std::vector<std::string> names;
    for (const size_t layer : {1, 2})
      for (const ParamSpec& param : blueprint.layers[layer].params)
        if (param.name.ends_with(".bias")) names.push_back(param.name);
    return names;
  };
  using Names = std::vector<std::string>;
  ModelConfig model = *model_preset("tiny-llama");
  EXPECT_EQ(biases(model), Names{});
  model.attention_bias = true;
  EXPECT_EQ(biases(model), (Names{"layers.0.attention.qkv.bias", "layers.0.attention.out.bias"}));
  model.attention_bias = false;
  model.mlp_bias = true;
  EXPECT_EQ(biases(model), (Names{"layers.0.mlp.gate_up.bias", "layers.0.mlp.down.bias"}));
  EXPECT_EQ(biases(*model_preset("tiny-qwen2")), (Names{"layers.0.attention.qkv.bias"}));
}

// Gate and up biases are cut as their rows are: this rank's part of each.
TEST(Blueprint, CutsTheBiasOfGateAndUpAsItsWeight) {
  ModelConfig model = *model_preset("tiny-llama");
  model.mlp_bias = true;
  const Blueprint blueprint = make_blueprint(model, {.degree = 4, .rank = 1});
  const std::vector<ParamSpec>& params = blueprint.layers[2].params;
  const auto find = [&](const char* name) {
    return std::ranges::find(params, std::string("layers.0.mlp.") + name, &ParamSpec::name);
  };
  EXPECT_EQ(find("gate_up.bias")->fragment.rows, find("gate_up.weight")->fragment.rows);
  EXPECT_EQ(find("gate_up.bias")->fragment.rows, (std::vector<Range>{{32, 64}, {160, 192}}));
}

// The second of two halves of experts 2 and 3 of 4: of each its gate rows, then its up rows, and
// the columns of down.
TEST(Blueprint, CutsExpertsOverEpAndEtp) {
  ModelConfig model = *model_preset("tiny-mixtral");
  model.experts = 4;
  model.expert_ffn = 10;
  const Blueprint blueprint =
      make_blueprint(model, {}, {.degree = 2, .rank = 1, .etp = 2, .etp_rank = 1});
  const std::vector<ParamSpec>& params = blueprint.layers[2].params;
  const auto find = [&](const char* name) {
    return *std::ranges::find(params, std::string("layers.0.moe.experts.") + name,
                              &ParamSpec::name);
  };
  const ParamSpec up = find("gate_up.weight"), down = find("down.weight");
  EXPECT_EQ(up.fragment.rows, (std::vector<Range>{{45, 50}, {55, 60}, {65, 70}, {75, 80}}));
  EXPECT_EQ(up.shape, (std::vector<int64_t>{20, 64}));
  EXPECT_EQ(down.fragment.rows, (std::vector<Range>{{128, 256}}));
  EXPECT_EQ(down.fragment.columns, (Range{5, 10}));
  EXPECT_EQ(down.shape, (std::vector<int64_t>{128, 5}));
  EXPECT_TRUE(up.is_expert && down.is_expert);
  // Without ep too, whatever tp is: the parts have replicas of their own.
  const Blueprint sliced =
      make_blueprint(model, {.degree = 2, .rank = 1, .sequence = true}, {.etp = 2, .etp_rank = 1});
  for (const ParamSpec& param : sliced.layers[2].params)
    if (param.is_expert) {
      EXPECT_FALSE(param.is_partial);
      EXPECT_EQ(param.elements(), param.whole[0] * param.whole[1] / 2);
    }
  EXPECT_EQ(sliced.parameters(), make_blueprint(model).parameters());
}

// Queries see 1, 2, ... 16 keys, then 16: 16 (2 - 16 / 64) is twice their mean but for half a key.
TEST(Blueprint, CountsFlopsOfAWindow) {
  const Blueprint windowed = of("tiny-mistral");
  ModelConfig none = windowed.model;
  none.sliding_window = 0;
  const double per_key = 6.0 * 8 * 64;
  EXPECT_EQ(make_blueprint(none).flops_per_token(64) - windowed.flops_per_token(64),
            per_key * (64 - 16 * (2 - 16.0 / 64)));
  EXPECT_EQ(make_blueprint(none).flops_per_token(16), windowed.flops_per_token(16));
  EXPECT_NE(flops_formula(windowed.model).find("window x (2 - window / sequence)"),
            std::string::npos);
  EXPECT_EQ(window_of(windowed.model), 16);
  none.sliding_window = 64;
  EXPECT_EQ(window_of(none), 0);
}

TEST(Blueprint, StoresTheVocabularyPadded) {
  const Blueprint gpt2 = of("gpt2-124m");
  EXPECT_EQ(gpt2.padded_vocab, 50304);
  EXPECT_EQ(gpt2.stored_parameters() - gpt2.parameters(), (50304 - 50257) * 768);
  EXPECT_EQ(of("gpt2-s").stored_parameters(), of("gpt2-s").parameters());
}

TEST(Blueprint, DecaysMatricesAndTablesOnlyAndNamesEachParameterOnce) {
  for (const char* preset :
       {"tiny", "tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-mixtral", "tiny-qwen3-moe"}) {
    std::set<std::string> names;
    for (const LayerSpec& layer : of(preset).layers)
      for (const ParamSpec& param : layer.params) {
        EXPECT_TRUE(names.insert(param.name).second) << param.name << " twice in " << preset;
        EXPECT_TRUE(param.name.starts_with(layer.name + ".")) << param.name;
        EXPECT_EQ(param.decay, param.shape.size() == 2) << param.name;
      }
  }
}

// gpt2-s by hand: 6 layers of 12 * 384^2, the head 256 * 384; attention 6 * 6 * 384 * 256.
TEST(Blueprint, CountsFlopsByItsFormula) {
  const double matmul = 6.0 * 12 * 384 * 384 + 256.0 * 384;
  EXPECT_EQ(of("gpt2-s").flops_per_token(256), 6 * matmul + 6.0 * 6 * 384 * 256);
}

// Active parameters as published: 12.9B of Mixtral, 3.3B and 22B of Qwen3. A token's FLOPs follow
// them; the head counts, the embedding does not.
TEST(Blueprint, CountsTheParametersThatATokenUses) {
  EXPECT_EQ(of("mixtral-8x7b").parameters(), 46'702'792'704);
  EXPECT_EQ(of("mixtral-8x7b").active_parameters(), 12'879'925'248);
  EXPECT_EQ(of("qwen3-30b-a3b").active_parameters(), 3'353'032'704);
  EXPECT_EQ(of("qwen3-235b-a22b").active_parameters(), 22'190'763'520);
  EXPECT_EQ(of("llama-8b").active_parameters(), of("llama-8b").parameters());
  const Blueprint tiny = of("tiny-mixtral");
  const double experts = 2.0 * 3 * 64 * 128, attention = 64.0 * 64 * 2 + 64 * 32 * 2;
  const double matmul = 4 * (experts + attention + 8 * 64) + 256.0 * 64;
  EXPECT_EQ(tiny.flops_per_token(64), 6 * matmul + 6.0 * 4 * 64 * 64);
}

}  // namespace
}  // namespace sextant
