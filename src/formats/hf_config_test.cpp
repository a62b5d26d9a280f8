#include "formats/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"

namespace sextant {
namespace {

using nlohmann::json;

const json kGpt2 = json::parse(R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768,
  "n_head": 12, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "bos_token_id": 50256,
  "eos_token_id": 50256, "layer_norm_epsilon": 1e-05})");

// Llama 3.1 8B as transformers 4 wrote it.
const json kLlama = json::parse(R"({"model_type": "llama", "num_hidden_layers": 32,
  "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "hidden_act": "silu", "attention_bias": false, "mlp_bias": false,
  "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
  "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "bos_token_id": 128000,
  "eos_token_id": [128001, 128008]})");

const json kQwen3 = json::parse(R"({"model_type": "qwen3", "num_hidden_layers": 28,
  "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
  "intermediate_size": 3072, "vocab_size": 151936, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000, "rope_scaling": null, "sliding_window": null,
  "use_sliding_window": false, "max_window_layers": 28, "tie_word_embeddings": true})");

// Mistral 7B v0.1, and Qwen 2.5 with three layers.
const json kMistral = json::parse(R"({"model_type": "mistral", "num_hidden_layers": 32,
  "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-05, "hidden_act": "silu", "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2})");
const json kQwen2 = json::parse(R"({"model_type": "qwen2", "num_hidden_layers": 3,
  "hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2,
  "intermediate_size": 4864, "vocab_size": 151936, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-06, "hidden_act": "silu", "rope_theta": 1000000.0, "sliding_window": 32768,
  "use_sliding_window": false, "max_window_layers": 3, "tie_word_embeddings": true})");

// GLM-5 with five layers, as transformers 5 writes it.
const json kGlm = json::parse(R"({"architectures": ["GlmMoeDsaForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "dtype": "bfloat16", "ep_size": 1,
  "eos_token_id": [154820, 154827, 154829], "first_k_dense_replace": 3, "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 6144, "index_head_dim": 128, "index_n_heads": 32,
  "index_topk": 2048, "indexer_rope_interleave": true, "initializer_range": 0.02,
  "intermediate_size": 12288, "kv_lora_rank": 512, "max_position_embeddings": 202752,
  "mlp_layer_types": ["dense", "dense", "dense", "sparse", "sparse"],
  "model_type": "glm_moe_dsa", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 1,
  "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
  "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 5,
  "num_key_value_heads": 64, "num_nextn_predict_layers": 1, "pad_token_id": 154820,
  "q_lora_rank": 2048, "qk_head_dim": 256, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-05, "rope_interleave": true, "rope_parameters": {"rope_theta": 1000000,
  "rope_type": "default"}, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
  "tie_word_embeddings": false, "topk_group": 1, "topk_method": "noaux_tc", "v_head_dim": 256,
  "vocab_size": 154880})");

HfConfig parse(const json& text) {
  return parse_hf_config(text.dump(), "c.json");
}

// The config with one key changed.
json with(json config, const char* key, const json& value) {
  config[key] = value;
  return config;
}
json without(json config, const char* key) {
  config.erase(key);
  return config;
}

TEST(HfConfig, ReadsGpt2WithItsDefaults) {
  const HfConfig config = parse(kGpt2);
  EXPECT_EQ(config.family, HfFamily::Gpt2);
  EXPECT_EQ(config.layers, 12);
  EXPECT_EQ(config.hidden, 768);
  EXPECT_EQ(config.heads, 12);
  EXPECT_EQ(config.kv_heads, 12);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.ffn, 3072);
  EXPECT_EQ(config.vocab, 50257);
  EXPECT_EQ(config.positions, 1024);
  EXPECT_TRUE(config.tied);
  EXPECT_EQ(config.activation, HfActivation::GeluTanh);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_EQ(config.tokens.bos, 50256);
  EXPECT_EQ(config.tokens.eos, (std::vector<int64_t>{50256}));
  EXPECT_EQ(config.dtype, "float32");
  EXPECT_EQ(parse(with(kGpt2, "n_inner", nullptr)).ffn, 3072);
  EXPECT_EQ(parse(with(kGpt2, "n_inner", 100)).ffn, 100);
  EXPECT_EQ(parse(with(kGpt2, "activation_function", "gelu")).activation, HfActivation::GeluExact);
  EXPECT_EQ(parse(with(kGpt2, "activation_function", "gelu_pytorch_tanh")).activation,
            HfActivation::GeluTanh);
  EXPECT_FALSE(parse(with(kGpt2, "tie_word_embeddings", false)).tied);
}

TEST(HfConfig, ReadsLlamaWithItsRotaryScaling) {
  const HfConfig config = parse(kLlama);
  EXPECT_EQ(config.family, HfFamily::Llama);
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.ffn, 14336);
  EXPECT_EQ(config.positions, 131072);
  EXPECT_EQ(config.activation, HfActivation::Silu);
  EXPECT_FALSE(config.tied);
  EXPECT_EQ(config.rope_theta, 500000.0);
  EXPECT_EQ(config.rope_scaling, (HfRopeScaling{8, 1, 4, 8192}));
  EXPECT_EQ(config.tokens.eos, (std::vector<int64_t>{128001, 128008}));
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_EQ(parse(without(kLlama, "num_key_value_heads")).kv_heads, 32);
  EXPECT_FALSE(parse(without(kLlama, "tie_word_embeddings")).tied);
  EXPECT_EQ(parse(without(kLlama, "rms_norm_eps")).norm_eps, 1e-6);
  EXPECT_EQ(parse(without(without(kLlama, "rope_theta"), "rope_scaling")).rope_theta, 10000.0);
}

TEST(HfConfig, ReadsQwen3WithItsOwnHeadSize) {
  const HfConfig config = parse(kQwen3);
  EXPECT_EQ(config.family, HfFamily::Qwen3);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_TRUE(config.tied);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_FALSE(config.rope_scaling.has_value());
  EXPECT_EQ(parse(without(kQwen3, "head_dim")).head_dim, 128);
  EXPECT_FALSE(parse(without(kQwen3, "tie_word_embeddings")).tied);
}

TEST(HfConfig, ReadsTheRotaryLayoutOfTransformers5) {
  const json old_layout = without(without(kLlama, "rope_theta"), "rope_scaling");
  json set = kLlama["rope_scaling"];
  set["rope_theta"] = 500000.0;
  EXPECT_EQ(parse(with(old_layout, "rope_parameters", set)), parse(kLlama));
  const json plain = {{"rope_theta", 7.5}, {"rope_type", "default"}};
  EXPECT_EQ(parse(with(old_layout, "rope_parameters", plain)).rope_theta, 7.5);
  // The set wins over the top-level key, and rope_scaling over rope_parameters.
  EXPECT_EQ(parse(with(without(kLlama, "rope_scaling"), "rope_parameters", plain)).rope_theta, 7.5);
  EXPECT_EQ(parse(with(kLlama, "rope_parameters", plain)), parse(kLlama));
}

TEST(HfConfig, ReadsAndWritesLinearAndYarnScaling) {
  const json linear = {{"type", "linear"}, {"factor", 2.5}};
  const HfConfig slowed = parse(with(kLlama, "rope_scaling", linear));
  EXPECT_EQ(slowed.rope_scaling->type, HfRopeType::Linear);
  EXPECT_EQ(slowed.rope_scaling->factor, 2.5);
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  const HfConfig plain = parse(with(kLlama, "rope_scaling", yarn));
  EXPECT_EQ(plain.rope_scaling->type, HfRopeType::Yarn);
  EXPECT_EQ(plain.rope_scaling->original_positions, 131072);  // the longest sequence
  EXPECT_EQ(plain.rope_scaling->beta_fast, 32);
  EXPECT_EQ(plain.rope_scaling->attention_factor, 0);
  const HfConfig beside =
      parse(with(with(kLlama, "rope_scaling", yarn), "original_max_position_embeddings", 4096));
  EXPECT_EQ(beside.rope_scaling->original_positions, 4096);
  const json full = {
      {"rope_type", "yarn"}, {"factor", 40.0},       {"original_max_position_embeddings", 4096},
      {"beta_fast", 16},     {"beta_slow", 2},       {"attention_factor", 1.5},
      {"mscale", 0.7},       {"mscale_all_dim", 0.9}};
  const HfConfig said = parse(with(kLlama, "rope_scaling", full));
  for (const HfConfig& config : {slowed, plain, beside, said})
    EXPECT_EQ(parse_hf_config(hf_config_text(config), "written"), config);
  EXPECT_EQ(json::parse(hf_config_text(said))["rope_scaling"], full);
  EXPECT_FALSE(parse(with(kLlama, "rope_scaling", with(yarn, "factor", 1))).rope_scaling);
}

// What is written says that the indexer, whose weights are left out, chooses all keys.
TEST(HfConfig, ReadsAndWritesGlm) {
  const HfConfig glm = parse(kGlm);
  EXPECT_EQ(glm.family, HfFamily::GlmMoeDsa);
  EXPECT_EQ(glm.dense_layers, 3);
  EXPECT_EQ(glm.head_dim, 256);
  EXPECT_EQ(glm.value_dim, 256);
  EXPECT_EQ(glm.q_lora_rank, 2048);
  EXPECT_EQ(glm.experts, 256);
  EXPECT_EQ(glm.router_scale, 2.5);
  EXPECT_EQ(glm.norm_eps, 1e-5);
  EXPECT_EQ(glm.rope_theta, 1e6);
  EXPECT_EQ(parse_hf_config(hf_config_text(glm), "written"), glm);
  const json written = json::parse(hf_config_text(glm));
  EXPECT_EQ(written["architectures"], kGlm["architectures"]);
  EXPECT_EQ(written["index_topk"], 202752);
  for (const char* key : {"model_type", "mlp_layer_types", "first_k_dense_replace", "head_dim",
                          "routed_scaling_factor", "rms_norm_eps", "n_group"})
    EXPECT_EQ(written[key], kGlm[key]) << key;
}

TEST(HfConfig, GlmHasDefaultsOfItsOwn) {
  json config = kGlm;
  for (const char* key : {"mlp_layer_types", "first_k_dense_replace", "rms_norm_eps",
                          "routed_scaling_factor", "n_group", "topk_group"})
    config.erase(key);
  EXPECT_EQ(parse(config), parse(kGlm));
  EXPECT_EQ(parse(without(kGlm, "first_k_dense_replace")), parse(kGlm));
  EXPECT_ERROR(
      parse(with(kGlm, "mlp_layer_types", {"dense", "sparse", "dense", "sparse", "dense"})), Data,
      "dense layers, then sparse ones, num_hidden_layers in all, are supported");
  EXPECT_ERROR(parse(with(kGlm, "mlp_layer_types", {"dense", "sparse"})), Data,
               "mlp_layer_types is [\"dense\",\"sparse\"]");
  EXPECT_ERROR(parse(with(kGlm, "first_k_dense_replace", 2)), Data,
               "it must be the number of dense mlp_layer_types");
}

TEST(HfConfig, RefusesWhatTheModelsHereDoNotCompute) {
  EXPECT_ERROR(parse(with(kGpt2, "model_type", "mamba")), Data,
               "c.json: model_type is \"mamba\"; gpt2, llama, mistral, qwen2, qwen3, mixtral, "
               "qwen3_moe, deepseek_v3 and glm_moe_dsa are supported");
  EXPECT_ERROR(parse(without(kGpt2, "model_type")), Data, "model_type is missing");
  EXPECT_ERROR(parse(with(kGpt2, "scale_attn_by_inverse_layer_idx", true)), Data,
               "scale_attn_by_inverse_layer_idx is true; only false is supported");
  EXPECT_ERROR(parse(with(kGpt2, "scale_attn_weights", false)), Data, "only true");
  EXPECT_ERROR(parse(with(kGpt2, "add_cross_attention", true)), Data, "add_cross_attention");
  EXPECT_ERROR(parse(with(kGpt2, "activation_function", "relu")), Data, "relu");
  EXPECT_ERROR(parse(with(kMistral, "attention_bias", true)), Data, "attention_bias is true;");
  EXPECT_ERROR(parse(with(kQwen2, "mlp_bias", true)), Data, "mlp_bias is true;");
  EXPECT_ERROR(parse(with(kLlama, "hidden_act", "gelu")), Data, "only silu");
  EXPECT_ERROR(parse(with(kLlama, "partial_rotary_factor", 0.5)), Data, "partial_rotary_factor");
  EXPECT_ERROR(parse(with(kLlama, "sliding_window", 4096)), Data, "sliding_window is 4096;");
  EXPECT_ERROR(parse(with(kLlama, "quantization_config", json::object())), Data, "quantised");
}

TEST(HfConfig, ReadsBiases) {
  const HfConfig llama = parse(with(with(kLlama, "attention_bias", true), "mlp_bias", true));
  EXPECT_TRUE(llama.attention_bias);
  EXPECT_TRUE(llama.mlp_bias);
  EXPECT_TRUE(parse(with(kQwen3, "attention_bias", true)).attention_bias);
  EXPECT_FALSE(parse(kQwen2).attention_bias);  // its own biases have no key
}

TEST(HfConfig, ReadsTheWindowOfMistral) {
  EXPECT_EQ(parse(kMistral).window, 4096);
  EXPECT_EQ(parse(without(kMistral, "sliding_window")).window, 4096);  // the default of its class
  EXPECT_EQ(parse(with(kMistral, "sliding_window", nullptr)).window, 0);
  json mixtral = with(kMistral, "model_type", "mixtral");
  EXPECT_EQ(parse(mixtral).window, 4096);
  EXPECT_EQ(parse(without(mixtral, "sliding_window")).window, 0);
  EXPECT_ERROR(parse(with(kMistral, "sliding_window", 0)), Data, "sliding_window is 0;");
  EXPECT_ERROR(parse(with(kMistral, "layer_types", {"sliding_attention", "full_attention"})), Data,
               "layer_types is [\"sliding_attention\",\"full_attention\"]; sliding_attention for "
               "each of num_hidden_layers is supported");
}

TEST(HfConfig, ReadsTheWindowOfQwenWhereItIsSwitchedOnInAllLayers) {
  EXPECT_EQ(parse(kQwen2).window, 0);
  const json on = with(kQwen2, "use_sliding_window", true);
  EXPECT_EQ(parse(on).window, 0);  // max_window_layers is their number: no layer has it
  EXPECT_EQ(parse(with(on, "max_window_layers", 0)).window, 32768);
  EXPECT_EQ(parse(with(with(on, "max_window_layers", 0), "sliding_window", nullptr)).window, 0);
  EXPECT_ERROR(parse(with(on, "max_window_layers", 2)), Data, "max_window_layers is 2;");
  const json full = {"full_attention", "full_attention", "full_attention"};
  const json sliding = {"sliding_attention", "sliding_attention", "sliding_attention"};
  EXPECT_EQ(parse(with(on, "layer_types", sliding)).window, 32768);
  EXPECT_EQ(parse(with(on, "layer_types", full)).window, 0);
  EXPECT_EQ(parse(with(kQwen2, "layer_types", full)).window, 0);
  EXPECT_ERROR(parse(with(kQwen2, "layer_types", sliding)), Data, "full_attention for each");
  json mixed = sliding;
  mixed[1] = "full_attention";
  EXPECT_ERROR(parse(with(on, "layer_types", mixed)), Data, "sliding_attention for each");
  EXPECT_ERROR(parse(with(kQwen3, "layer_types", "full_attention")), Data,
               "layer_types is \"full_attention\"; full_attention for each");
}

TEST(HfConfig, RefusesOtherRotaryTypes) {
  for (const char* type : {"dynamic", "longrope"}) {
    EXPECT_ERROR(parse(with(kLlama, "rope_scaling", {{"rope_type", type}, {"factor", 2.0}})), Data,
                 "default, linear, llama3 and yarn are supported");
    EXPECT_ERROR(parse(with(kLlama, "rope_scaling", {{"type", type}, {"factor", 2.0}})), Data,
                 "c.json: rope_scaling.type is");
  }
  json set = kLlama["rope_scaling"];
  EXPECT_ERROR(parse(with(kLlama, "rope_scaling", without(set, "low_freq_factor"))), Data,
               "rope_scaling.low_freq_factor is missing");
  EXPECT_ERROR(parse(with(kLlama, "rope_scaling", with(set, "high_freq_factor", 1.0))), Data,
               "above low_freq_factor");
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_ERROR(parse(with(kLlama, "rope_scaling", without(yarn, "factor"))), Data,
               "rope_scaling.factor is missing");
  EXPECT_ERROR(parse(with(kLlama, "rope_scaling", with(yarn, "factor", 0.5))), Data,
               "a number from 1 is needed");
  EXPECT_ERROR(parse(with(kLlama, "rope_scaling", with(yarn, "beta_slow", 40))), Data,
               "it must be above beta_slow");
  EXPECT_ERROR(parse(with(kLlama, "rope_scaling", with(yarn, "truncate", false))), Data,
               "only true is supported");
  EXPECT_ERROR(
      parse(with(kLlama, "rope_scaling", with(with(yarn, "factor", 1), "attention_factor", 2))),
      Data, "only 1 is supported with a factor of 1");
  EXPECT_ERROR(parse(with(kQwen3, "rope_parameters", {{"full_attention", json::object()}})), Data,
               "one set for all layers");
}

TEST(HfConfig, RefusesSizesThatCannotBe) {
  EXPECT_ERROR(parse(without(kGpt2, "n_layer")), Data, "n_layer is missing");
  for (const json& bad : {json(0), json(-3), json(1.5), json("12"), json(3000000000u)})
    EXPECT_ERROR(parse(with(kGpt2, "n_layer", bad)), Data, "whole number from 1 to 2^31");
  EXPECT_ERROR(parse(with(kGpt2, "n_head", 7)), Data, "must divide n_embd");
  EXPECT_ERROR(parse(with(kLlama, "num_key_value_heads", 5)), Data, "num_key_value_heads is 5;");
  EXPECT_ERROR(parse(with(kLlama, "num_attention_heads", 24)), Data, "must divide hidden_size");
  EXPECT_ERROR(parse(with(kLlama, "head_dim", 127)), Data, "even");
  EXPECT_ERROR(parse(with(kLlama, "rms_norm_eps", 0)), Data, "positive number");
  EXPECT_ERROR(parse(with(kLlama, "eos_token_id", "x")), Data, "token id");
  EXPECT_ERROR(parse(with(kLlama, "bos_token_id", UINT64_MAX)), Data, "token id");
  EXPECT_ERROR(parse(without(kQwen3, "num_key_value_heads")), Data, "is missing");
  EXPECT_ERROR(parse_hf_config("[]", "c.json"), Data, "object is needed");
  EXPECT_ERROR(parse_hf_config("{", "c.json"), Data, "not valid JSON");
}

TEST(HfConfig, WhatIsWrittenReadsBackEqual) {
  const json on = with(with(kQwen2, "use_sliding_window", true), "max_window_layers", 0);
  for (const json& source :
       {kGpt2, kLlama, kQwen3, with(kGpt2, "activation_function", "gelu"), kMistral, kQwen2, on,
        with(kMistral, "sliding_window", nullptr), with(kMistral, "model_type", "mixtral"),
        with(with(kLlama, "attention_bias", true), "mlp_bias", true),
        with(kQwen3, "attention_bias", true)}) {
    const HfConfig config = parse(source);
    const std::string text = hf_config_text(config);
    EXPECT_EQ(parse_hf_config(text, "written"), config) << text;
  }
}

TEST(HfConfig, WritesTheRotarySettingsForBothGenerationsOfReaders) {
  const json out = json::parse(hf_config_text(parse(kLlama)));
  EXPECT_EQ(out["architectures"], json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(out["rope_theta"], 500000.0);
  EXPECT_EQ(out["rope_scaling"], kLlama["rope_scaling"]);
  EXPECT_EQ(out["rope_parameters"]["rope_theta"], 500000.0);
  EXPECT_EQ(out["rope_parameters"]["rope_type"], "llama3");
  const json plain = json::parse(hf_config_text(parse(kQwen3)));
  EXPECT_TRUE(plain["rope_scaling"].is_null());
  EXPECT_EQ(plain["rope_parameters"]["rope_type"], "default");
}

TEST(HfConfig, RefusesToWriteWhatAFamilyCannotSay) {
  HfConfig config = parse(kGpt2);
  config.kv_heads = 4;
  EXPECT_ERROR(hf_config_text(config), Usage, "kv_heads 4");
  config = parse(kLlama);
  config.window = 5;
  EXPECT_ERROR(hf_config_text(config), Usage, "a window of 5");
  config = parse(kLlama);
  config.activation = HfActivation::GeluExact;
  EXPECT_ERROR(hf_config_text(config), Usage, "llama config cannot have this activation");
}

}  // namespace
}  // namespace sextant
