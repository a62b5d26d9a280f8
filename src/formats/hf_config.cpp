#include "formats/hf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/hf_rope.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

void read_gpt2(HfConfig& config, const HfKeys& keys) {
  config.layers = keys.size("n_layer");
  config.hidden = keys.size("n_embd");
  config.heads = config.kv_heads = keys.size("n_head");
  if (config.hidden % config.heads != 0) keys.refuse("n_head", "it must divide n_embd");
  config.head_dim = config.hidden / config.heads;
  config.ffn = keys.size_or("n_inner", 4 * config.hidden);
  config.positions = keys.size("n_positions");
  config.tied = keys.flag_or("tie_word_embeddings", true);
  config.norm_eps = keys.positive_or("layer_norm_epsilon", 1e-5);
  const std::string activation = keys.text_or("activation_function", "gelu_new");
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") {
    config.activation = HfActivation::GeluTanh;
  } else if (activation == "gelu") {
    config.activation = HfActivation::GeluExact;
  } else {
    keys.refuse("activation_function", "gelu_new, gelu_pytorch_tanh and gelu are supported");
  }
  keys.require_false("scale_attn_by_inverse_layer_idx");
  keys.require_false("add_cross_attention");
  if (!keys.flag_or("scale_attn_weights", true))
    keys.refuse("scale_attn_weights", "only true is supported");
}

bool is_qwen(HfFamily family) {
  return family == HfFamily::Qwen2 || family == HfFamily::Qwen3 || family == HfFamily::Qwen3Moe;
}

// Qwen's window counts where use_sliding_window switches it on: in all layers of Qwen3Moe, in those
// from max_window_layers on of the others.
int64_t qwen_window(const HfConfig& config, const HfKeys& keys) {
  if (!keys.flag_or("use_sliding_window", false)) return 0;
  if (keys.has_null("sliding_window")) return 0;
  if (config.family != HfFamily::Qwen3Moe && keys.find("layer_types") == nullptr) {
    const int64_t first = keys.count_or("max_window_layers", 28);
    if (first >= config.layers) return 0;
    if (first > 0)
      keys.refuse("max_window_layers", "a window in some layers only is not supported, 0 is");
  }
  return keys.size_or("sliding_window", 4096);
}

// The types of the layers, which must be one. Qwen3Moe has no such key.
void read_layer_types(HfConfig& config, const HfKeys& keys) {
  const json* types = keys.find("layer_types");
  if (types == nullptr || config.family == HfFamily::Qwen3Moe) return;
  const auto are_all = [&](const char* wanted) {
    return types->is_array() && static_cast<int64_t>(types->size()) == config.layers &&
           std::ranges::all_of(*types, [&](const json& type) { return type == wanted; });
  };
  if (is_qwen(config.family) && are_all("full_attention"))
    config.window = 0;
  else if (!are_all(config.window > 0 ? "sliding_attention" : "full_attention"))
    keys.refuse("layer_types", config.window > 0
                                   ? "sliding_attention for each of num_hidden_layers is supported"
                                   : "full_attention for each of num_hidden_layers is supported");
}

void read_window(HfConfig& config, const HfKeys& keys) {
  const HfFamily family = config.family;
  if (is_qwen(family)) {
    config.window = qwen_window(config, keys);
  } else if (family == HfFamily::Mistral || family == HfFamily::Mixtral) {
    const bool is_absent = keys.find("sliding_window") == nullptr;
    const int64_t otherwise =
        family == HfFamily::Mistral && !keys.has_null("sliding_window") ? 4096 : 0;
    config.window = is_absent ? otherwise : keys.size("sliding_window");
  } else {
    keys.require_false("use_sliding_window");
    keys.require_absent("sliding_window", "llama attends to all tokens: null or no such key");
  }
  read_layer_types(config, keys);
}

bool has_experts(HfFamily family) {
  return family == HfFamily::Mixtral || family == HfFamily::Qwen3Moe;
}

void read_experts(HfConfig& config, const HfKeys& keys) {
  if (config.family == HfFamily::Mixtral) {
    config.experts = keys.size_or("num_local_experts", 8);
    config.experts_per_token = keys.size_or("num_experts_per_tok", 2);
    if (const json* noise = keys.find("router_jitter_noise"); noise != nullptr && *noise != 0.0)
      keys.refuse("router_jitter_noise", "only 0 is supported");
  } else {
    config.experts = keys.size_or("num_experts", keys.size_or("num_local_experts", 128));
    config.experts_per_token = keys.size_or("num_experts_per_tok", 8);
    config.ffn = keys.size("moe_intermediate_size");
    config.renormalised = keys.flag_or("norm_topk_prob", false);
    if (keys.size_or("decoder_sparse_step", 1) != 1)
      keys.refuse("decoder_sparse_step", "only 1, experts in every layer, is supported");
    const json* dense = keys.find("mlp_only_layers");
    if (dense != nullptr && (!dense->is_array() || !dense->empty()))
      keys.refuse("mlp_only_layers", "only [], experts in every layer, is supported");
  }
  if (config.experts_per_token > config.experts)
    keys.refuse("num_experts_per_tok", "it must not be above the number of experts");
}

// Qwen2 has its biases with any value of the key.
void read_biases(HfConfig& config, const HfKeys& keys) {
  const HfFamily family = config.family;
  if (family == HfFamily::Llama || family == HfFamily::Qwen3 || family == HfFamily::Qwen3Moe)
    config.attention_bias = keys.flag_or("attention_bias", false);
  else if (family != HfFamily::Qwen2)
    keys.require_false("attention_bias");
  if (family == HfFamily::Llama)
    config.mlp_bias = keys.flag_or("mlp_bias", false);
  else
    keys.require_false("mlp_bias");
}

void read_llama_like(HfConfig& config, const HfKeys& keys, const std::string& what) {
  config.layers = keys.size("num_hidden_layers");
  config.hidden = keys.size("hidden_size");
  config.heads = keys.size("num_attention_heads");
  config.ffn = config.family == HfFamily::Qwen3Moe ? keys.size_or("intermediate_size", 1)
                                                   : keys.size("intermediate_size");
  config.positions = keys.size("max_position_embeddings");
  // A null means as many as heads; an absent key means another number in each other family.
  config.kv_heads = config.family == HfFamily::Llama || keys.has_null("num_key_value_heads")
                        ? keys.size_or("num_key_value_heads", config.heads)
                        : keys.size("num_key_value_heads");
  if (config.heads % config.kv_heads != 0)
    keys.refuse("num_key_value_heads", "it must divide num_attention_heads");
  const bool is_derived = config.family != HfFamily::Qwen3;
  if (is_derived && keys.find("head_dim") == nullptr && config.hidden % config.heads != 0)
    keys.refuse("num_attention_heads", "it must divide hidden_size where head_dim is not given");
  config.head_dim = keys.size_or("head_dim", is_derived ? config.hidden / config.heads : 128);
  if (config.head_dim % 2 != 0) keys.refuse("head_dim", "rotary positions need an even one");
  config.tied = keys.flag_or("tie_word_embeddings", false);
  config.norm_eps =
      keys.positive_or("rms_norm_eps", config.family == HfFamily::Mixtral ? 1e-5 : 1e-6);
  if (keys.text_or("hidden_act", "silu") != "silu")
    keys.refuse("hidden_act", "only silu is supported");
  config.activation = HfActivation::Silu;
  read_biases(config, keys);
  read_window(config, keys);
  read_hf_rope(config, keys, what);
  if (has_experts(config.family)) read_experts(config, keys);
}

// The number of dense layers. GlmMoeDsa may list the kind of each layer.
int64_t dense_layers_of(const HfConfig& config, const HfKeys& keys) {
  const bool is_glm = config.family == HfFamily::GlmMoeDsa;
  const json* types = keys.find("mlp_layer_types");
  if (!is_glm || types == nullptr) return keys.count_or("first_k_dense_replace", is_glm ? 3 : 0);
  const auto refuse = [&] {
    keys.refuse("mlp_layer_types",
                "dense layers, then sparse ones, num_hidden_layers in all, are supported");
  };
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers) refuse();
  int64_t dense = 0;
  while (dense < config.layers && (*types)[static_cast<size_t>(dense)] == "dense") ++dense;
  for (int64_t layer = dense; layer < config.layers; ++layer)
    if ((*types)[static_cast<size_t>(layer)] != "sparse") refuse();
  if (keys.count_or("first_k_dense_replace", dense) != dense)
    keys.refuse("first_k_dense_replace", "it must be the number of dense mlp_layer_types");
  return dense;
}

// Layers of multi-token prediction (num_nextn_predict_layers) are no part of the model itself.
void read_deepseek(HfConfig& config, const HfKeys& keys, const std::string& what) {
  config.layers = keys.size("num_hidden_layers");
  config.hidden = keys.size("hidden_size");
  config.heads = config.kv_heads = keys.size("num_attention_heads");
  if (keys.size_or("num_key_value_heads", config.heads) != config.heads)
    keys.refuse("num_key_value_heads", "it must be num_attention_heads");
  config.ffn = keys.size("intermediate_size");
  config.positions = keys.size("max_position_embeddings");
  config.q_lora_rank = keys.size_or("q_lora_rank", 0);
  config.kv_lora_rank = keys.size("kv_lora_rank");
  config.rope_dim = keys.size("qk_rope_head_dim");
  if (config.rope_dim % 2 != 0) keys.refuse("qk_rope_head_dim", "an even one is needed");
  config.head_dim = keys.size("qk_nope_head_dim") + config.rope_dim;
  config.value_dim = keys.size("v_head_dim");
  config.experts = keys.size("n_routed_experts");
  config.experts_per_token = keys.size("num_experts_per_tok");
  config.expert_ffn = keys.size("moe_intermediate_size");
  config.shared_experts = keys.count_or("n_shared_experts", 0);
  config.dense_layers = dense_layers_of(config, keys);
  config.router_groups = keys.size_or("n_group", 1);
  config.groups_per_token = keys.size_or("topk_group", 1);
  const bool is_glm = config.family == HfFamily::GlmMoeDsa;
  config.router_scale = keys.positive_or("routed_scaling_factor", is_glm ? 2.5 : 1);
  config.renormalised = keys.flag_or("norm_topk_prob", true);
  if (keys.text_or("scoring_func", "sigmoid") != "sigmoid")
    keys.refuse("scoring_func", "only sigmoid is supported");
  if (keys.text_or("topk_method", "noaux_tc") != "noaux_tc")
    keys.refuse("topk_method", "only noaux_tc is supported");
  if (keys.size_or("moe_layer_freq", 1) != 1) keys.refuse("moe_layer_freq", "only 1 is supported");
  if (!keys.flag_or("rope_interleave", true))
    keys.refuse("rope_interleave", "only true is supported");
  config.tied = keys.flag_or("tie_word_embeddings", false);
  config.norm_eps = keys.positive_or("rms_norm_eps", is_glm ? 1e-5 : 1e-6);
  if (keys.text_or("hidden_act", "silu") != "silu")
    keys.refuse("hidden_act", "only silu is supported");
  config.activation = HfActivation::Silu;
  keys.require_false("attention_bias");
  read_hf_rope(config, keys, what);
}

}  // namespace

HfConfig parse_hf_config(std::string_view text, const std::string& what) {
  const json object = parse_json_strict(text, what);
  SXT_CHECK(object.is_object(), Data, what, ": a JSON object is needed");
  const HfKeys keys(object, what + ": ");
  HfConfig config;
  const std::string family = keys.text_or("model_type", "");
  if (family == "gpt2") {
    config.family = HfFamily::Gpt2;
  } else if (family == "llama") {
    config.family = HfFamily::Llama;
  } else if (family == "mistral") {
    config.family = HfFamily::Mistral;
  } else if (family == "qwen2") {
    config.family = HfFamily::Qwen2;
  } else if (family == "qwen3") {
    config.family = HfFamily::Qwen3;
  } else if (family == "mixtral") {
    config.family = HfFamily::Mixtral;
  } else if (family == "qwen3_moe") {
    config.family = HfFamily::Qwen3Moe;
  } else if (family == "deepseek_v3" || family == "kimi_k2") {
    config.family = HfFamily::DeepseekV3;
  } else if (family == "glm_moe_dsa") {
    config.family = HfFamily::GlmMoeDsa;
  } else {
    keys.refuse("model_type",
                "gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, deepseek_v3 and "
                "glm_moe_dsa are supported");
  }
  keys.require_absent("quantization_config", "only weights that are not quantised are supported");
  config.vocab = keys.size("vocab_size");
  if (config.family == HfFamily::Gpt2) {
    read_gpt2(config, keys);
  } else if (is_deepseek(config.family)) {
    read_deepseek(config, keys, what);
  } else {
    read_llama_like(config, keys, what);
  }
  config.tokens = read_hf_tokens(keys);
  config.dtype = keys.text_or("dtype", keys.text_or("torch_dtype", "float32"));
  return config;
}

}  // namespace sextant
