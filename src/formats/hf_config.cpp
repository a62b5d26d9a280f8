#include "formats/hf_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

// Far above any model, and far below where products of sizes overflow.
constexpr int64_t kLargestHfSize = int64_t{1} << 31;

// A value in a message: a string in quotes, anything else as the file has it.
std::string shown_value(const json& value) {
  if (value.is_string()) return shown(value.get_ref<const std::string&>());
  const std::string quoted = shown(value.dump(-1, ' ', true));
  return quoted.substr(1, quoted.size() - 2);
}

// The keys of one JSON object, with errors that say where they stand. A null is an absent key.
class HfKeys {
 public:
  HfKeys(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  bool has_null(const char* key) const {
    const auto found = object_.find(key);
    return found != object_.end() && found->is_null();
  }

  [[noreturn]] void refuse(const char* key, const char* right) const {
    const json* value = find(key);
    if (value == nullptr) SXT_FAIL(Data, where_, key, " is missing; ", right);
    SXT_FAIL(Data, where_, key, " is ", shown_value(*value), "; ", right);
  }

  int64_t size(const char* key) const {
    const json* value = find(key);
    const bool good = value != nullptr && value->is_number_unsigned() &&
                      value->get<uint64_t>() >= 1 && value->get<uint64_t>() <= kLargestHfSize;
    if (!good) refuse(key, "a whole number from 1 to 2^31 is needed");
    return value->get<int64_t>();
  }
  int64_t size_or(const char* key, int64_t otherwise) const {
    return find(key) == nullptr ? otherwise : size(key);
  }

  int64_t count_or(const char* key, int64_t otherwise) const {
    const json* value = find(key);
    return value == nullptr ? otherwise : *value == 0 ? 0 : size(key);
  }

  double positive(const char* key) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_number() || !(value->get<double>() > 0))
      refuse(key, "a positive number is needed");
    return value->get<double>();
  }
  double positive_or(const char* key, double otherwise) const {
    return find(key) == nullptr ? otherwise : positive(key);
  }

  bool flag_or(const char* key, bool otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, "true or false is needed");
    return value->get<bool>();
  }

  std::string text_or(const char* key, const std::string& otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(key, "a string is needed");
    return value->get<std::string>();
  }

  void require_false(const char* key) const {
    if (flag_or(key, false)) refuse(key, "only false is supported");
  }
  void require_absent(const char* key, const char* right) const {
    if (find(key) != nullptr) refuse(key, right);
  }

 private:
  const json& object_;
  std::string where_;
};

void read_tokens(HfConfig& config, const HfKeys& keys) {
  const char* const right = "a token id, or for eos_token_id a list of them, is needed";
  const auto id = [&](const char* key, const json& value) {
    // -1 is written by some for "none".
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() < kLargestHfSize
                                                 : value.is_number_integer();
    if (!fits) keys.refuse(key, right);
    return value.get<int64_t>();
  };
  if (const json* bos = keys.find("bos_token_id"); bos != nullptr && id("bos_token_id", *bos) >= 0)
    config.bos_token = bos->get<int64_t>();
  const json* eos = keys.find("eos_token_id");
  if (eos == nullptr) return;
  for (const json& one : eos->is_array() ? *eos : json::array({*eos}))
    if (id("eos_token_id", one) >= 0) config.eos_tokens.push_back(one.get<int64_t>());
}

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

constexpr const char* kOriginal = "original_max_position_embeddings";

void read_llama3_rope(HfRopeScaling& scaling, const HfKeys& rope) {
  scaling.low_freq_factor = rope.positive("low_freq_factor");
  scaling.high_freq_factor = rope.positive("high_freq_factor");
  scaling.original_positions = rope.size(kOriginal);
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    rope.refuse("high_freq_factor", "it must be above low_freq_factor");
}

// 0 where the key says nothing, or 0.
double positive_or_none(const HfKeys& keys, const char* key) {
  const json* value = keys.find(key);
  return value == nullptr || *value == 0 ? 0 : keys.positive(key);
}

void read_yarn_rope(HfRopeScaling& scaling, const HfKeys& rope, const HfKeys& keys,
                    int64_t positions) {
  scaling.type = HfRopeType::Yarn;
  scaling.original_positions = keys.size_or(kOriginal, rope.size_or(kOriginal, positions));
  scaling.beta_fast = rope.positive_or("beta_fast", 32);
  scaling.beta_slow = rope.positive_or("beta_slow", 1);
  if (scaling.beta_fast <= scaling.beta_slow)
    rope.refuse("beta_fast", "it must be above beta_slow");
  scaling.attention_factor = positive_or_none(rope, "attention_factor");
  scaling.mscale = positive_or_none(rope, "mscale");
  scaling.mscale_all_dim = positive_or_none(rope, "mscale_all_dim");
  if (!rope.flag_or("truncate", true)) rope.refuse("truncate", "only true is supported");
  if (scaling.factor == 1 && scaling.attention_factor != 0 && scaling.attention_factor != 1)
    rope.refuse("attention_factor", "only 1 is supported with a factor of 1");
}

// Whatever stands in `rope` wins over the top-level keys, but for the original length, as in
// transformers 5.
void read_rope_set(HfConfig& config, const HfKeys& rope, const HfKeys& keys) {
  config.rope_theta = rope.positive_or("rope_theta", config.rope_theta);
  if (rope.positive_or("partial_rotary_factor", 1.0) != 1.0)
    rope.refuse("partial_rotary_factor", "only 1, rotation of whole heads, is supported");
  const char* const key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string type = rope.text_or(key, "default");
  if (type == "default") return;
  HfRopeScaling scaling;
  scaling.factor = rope.positive("factor");
  if (scaling.factor < 1) rope.refuse("factor", "a number from 1 is needed");
  if (type == "llama3") {
    read_llama3_rope(scaling, rope);
  } else if (type == "yarn") {
    read_yarn_rope(scaling, rope, keys, config.positions);
  } else if (type == "linear") {
    scaling.type = HfRopeType::Linear;
  } else {
    rope.refuse(key, "default, linear, llama3 and yarn are supported");
  }
  if (scaling.factor != 1) config.rope_scaling = scaling;
}

void read_rope(HfConfig& config, const HfKeys& keys, const std::string& what) {
  config.rope_theta =
      keys.positive_or("rope_theta", config.family == HfFamily::Mixtral ? 1e6 : 10000.0);
  if (keys.positive_or("partial_rotary_factor", 1.0) != 1.0)
    keys.refuse("partial_rotary_factor", "only 1, rotation of whole heads, is supported");
  const char* const name =
      keys.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  const json* set = keys.find(name);
  if (set == nullptr) return;
  if (!set->is_object()) keys.refuse(name, "an object is needed");
  for (const auto& [key, value] : set->items())
    if (value.is_object()) keys.refuse(name, "one set for all layers is supported");
  read_rope_set(config, HfKeys(*set, what + ": " + name + "."), keys);
}

void require_full_attention(const HfKeys& keys) {
  keys.require_false("use_sliding_window");
  // Qwen configs carry a window that use_sliding_window = false switches off.
  if (keys.find("use_sliding_window") == nullptr)
    keys.require_absent("sliding_window", "only full attention is supported: null or no such key");
  const json* types = keys.find("layer_types");
  if (types == nullptr) return;
  for (const json& type : *types)
    if (type != "full_attention") keys.refuse("layer_types", "only full_attention is supported");
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
  const bool is_llama = config.family == HfFamily::Llama || config.family == HfFamily::Mixtral;
  config.kv_heads = is_llama || keys.has_null("num_key_value_heads")
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
  require_full_attention(keys);
  read_rope(config, keys, what);
  if (has_experts(config.family)) read_experts(config, keys);
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
  config.dense_layers = keys.count_or("first_k_dense_replace", 0);
  config.router_groups = keys.size_or("n_group", 1);
  config.groups_per_token = keys.size_or("topk_group", 1);
  config.router_scale = keys.positive_or("routed_scaling_factor", 1);
  config.renormalised = keys.flag_or("norm_topk_prob", true);
  if (keys.text_or("scoring_func", "sigmoid") != "sigmoid")
    keys.refuse("scoring_func", "only sigmoid is supported");
  if (keys.text_or("topk_method", "noaux_tc") != "noaux_tc")
    keys.refuse("topk_method", "only noaux_tc is supported");
  if (keys.size_or("moe_layer_freq", 1) != 1) keys.refuse("moe_layer_freq", "only 1 is supported");
  if (!keys.flag_or("rope_interleave", true))
    keys.refuse("rope_interleave", "only true is supported");
  config.tied = keys.flag_or("tie_word_embeddings", false);
  config.norm_eps = keys.positive_or("rms_norm_eps", 1e-6);
  if (keys.text_or("hidden_act", "silu") != "silu")
    keys.refuse("hidden_act", "only silu is supported");
  config.activation = HfActivation::Silu;
  keys.require_false("attention_bias");
  read_rope(config, keys, what);
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
  } else {
    keys.refuse("model_type",
                "gpt2, llama, qwen2, qwen3, mixtral, qwen3_moe and deepseek_v3 are supported");
  }
  keys.require_absent("quantization_config", "only weights that are not quantised are supported");
  config.vocab = keys.size("vocab_size");
  if (config.family == HfFamily::Gpt2) {
    read_gpt2(config, keys);
  } else if (config.family == HfFamily::DeepseekV3) {
    read_deepseek(config, keys, what);
  } else {
    read_llama_like(config, keys, what);
  }
  read_tokens(config, keys);
  config.dtype = keys.text_or("dtype", keys.text_or("torch_dtype", "float32"));
  return config;
}

}  // namespace sextant
