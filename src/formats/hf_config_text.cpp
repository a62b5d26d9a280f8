// Writing config.json.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/hf_config.h"

namespace sextant {
namespace {

using nlohmann::ordered_json;

void write_experts(ordered_json& out, const HfConfig& config) {
  out["num_experts_per_tok"] = config.experts_per_token;
  out["output_router_logits"] = false;
  if (config.family == HfFamily::Mixtral) {
    out["num_local_experts"] = config.experts;
    return;
  }
  out["num_experts"] = config.experts;
  out["moe_intermediate_size"] = config.ffn;
  out["norm_topk_prob"] = config.renormalised;
  out["decoder_sparse_step"] = 1;
  out["mlp_only_layers"] = ordered_json::array();
}

void write_deepseek(ordered_json& out, const HfConfig& config) {
  out["q_lora_rank"] = config.q_lora_rank > 0 ? ordered_json(config.q_lora_rank) : ordered_json();
  out["kv_lora_rank"] = config.kv_lora_rank;
  out["qk_nope_head_dim"] = config.head_dim - config.rope_dim;
  out["qk_rope_head_dim"] = config.rope_dim;
  out["head_dim"] = config.rope_dim;  // what transformers rotates
  out["v_head_dim"] = config.value_dim;
  out["rope_interleave"] = true;
  out["n_routed_experts"] = config.experts;
  out["num_experts_per_tok"] = config.experts_per_token;
  out["moe_intermediate_size"] = config.expert_ffn;
  out["n_shared_experts"] = config.shared_experts;
  out["first_k_dense_replace"] = config.dense_layers;
  out["n_group"] = config.router_groups;
  out["topk_group"] = config.groups_per_token;
  out["norm_topk_prob"] = config.renormalised;
  out["routed_scaling_factor"] = config.router_scale;
  out["scoring_func"] = "sigmoid";
  out["topk_method"] = "noaux_tc";
  out["moe_layer_freq"] = 1;
  out["num_nextn_predict_layers"] = 0;
  if (config.family != HfFamily::GlmMoeDsa) return;
  ordered_json types = ordered_json::array();
  for (int64_t layer = 0; layer < config.layers; ++layer)
    types.push_back(layer < config.dense_layers ? "dense" : "sparse");
  out["mlp_layer_types"] = types;
  // The weights of the indexer are left out: so it may choose nothing but all keys.
  out["index_topk"] = config.positions;
}

ordered_json rope_set(const HfRopeScaling& scaling) {
  ordered_json set = {{"factor", scaling.factor}};
  if (scaling.type == HfRopeType::Llama3) {
    set["low_freq_factor"] = scaling.low_freq_factor;
    set["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.type != HfRopeType::Linear)
    set["original_max_position_embeddings"] = scaling.original_positions;
  if (scaling.type == HfRopeType::Yarn) {
    set["beta_fast"] = scaling.beta_fast;
    set["beta_slow"] = scaling.beta_slow;
    if (scaling.attention_factor != 0) set["attention_factor"] = scaling.attention_factor;
    if (scaling.mscale != 0) set["mscale"] = scaling.mscale;
    if (scaling.mscale_all_dim != 0) set["mscale_all_dim"] = scaling.mscale_all_dim;
  }
  static constexpr const char* kTypes[] = {"llama3", "linear", "yarn"};
  set["rope_type"] = kTypes[static_cast<size_t>(scaling.type)];
  return set;
}

void write_rope(ordered_json& out, const HfConfig& config) {
  ordered_json set = config.rope_scaling ? rope_set(*config.rope_scaling) : ordered_json::object();
  if (!config.rope_scaling) set["rope_type"] = "default";
  // transformers 4 reads the first two, transformers 5 writes and prefers the last.
  out["rope_theta"] = config.rope_theta;
  out["rope_scaling"] = config.rope_scaling ? set : ordered_json();
  set["rope_theta"] = config.rope_theta;
  out["rope_parameters"] = set;
}

void write_gpt2(ordered_json& out, const HfConfig& config) {
  SXT_CHECK(config.heads * config.head_dim == config.hidden && config.kv_heads == config.heads,
            Usage, "a gpt2 config cannot say hidden ", config.hidden, ", heads ", config.heads,
            ", kv_heads ", config.kv_heads, ", head_dim ", config.head_dim,
            ": heads times head_dim must be hidden, kv_heads equal heads");
  out["n_layer"] = config.layers;
  out["n_embd"] = config.hidden;
  out["n_head"] = config.heads;
  out["n_inner"] = config.ffn;
  out["n_positions"] = config.positions;
  out["activation_function"] = config.activation == HfActivation::GeluTanh ? "gelu_new" : "gelu";
  out["layer_norm_epsilon"] = config.norm_eps;
  // Their default of 0.1 would make a training run differ from what was trained here.
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) out[key] = 0.0;
}

void write_window(ordered_json& out, const HfConfig& config) {
  const HfFamily family = config.family;
  const bool is_qwen =
      family == HfFamily::Qwen2 || family == HfFamily::Qwen3 || family == HfFamily::Qwen3Moe;
  SXT_CHECK(
      is_qwen || family == HfFamily::Mistral || family == HfFamily::Mixtral || config.window == 0,
      Usage, "a config of this family cannot have a window of ", config.window);
  if (is_qwen) {
    out["use_sliding_window"] = config.window > 0;
    if (config.window > 0) out["max_window_layers"] = 0;
  }
  if (is_qwen ? config.window > 0 : family == HfFamily::Mistral || family == HfFamily::Mixtral)
    out["sliding_window"] = config.window > 0 ? ordered_json(config.window) : ordered_json();
}

void write_llama_like(ordered_json& out, const HfConfig& config) {
  out["num_hidden_layers"] = config.layers;
  out["hidden_size"] = config.hidden;
  out["num_attention_heads"] = config.heads;
  out["num_key_value_heads"] = config.kv_heads;
  out["head_dim"] = config.head_dim;
  out["intermediate_size"] = config.ffn;
  out["max_position_embeddings"] = config.positions;
  out["hidden_act"] = "silu";
  out["rms_norm_eps"] = config.norm_eps;
  if (config.family != HfFamily::Qwen2) out["attention_bias"] = config.attention_bias;
  if (config.family == HfFamily::Llama) out["mlp_bias"] = config.mlp_bias;
  write_window(out, config);
  if (config.experts > 0 && !is_deepseek(config.family)) write_experts(out, config);
  if (is_deepseek(config.family)) write_deepseek(out, config);
  write_rope(out, config);
}

}  // namespace

std::string hf_config_text(const HfConfig& config) {
  static constexpr const char* kTypes[] = {"gpt2",      "llama",       "mistral",
                                           "qwen2",     "qwen3",       "mixtral",
                                           "qwen3_moe", "deepseek_v3", "glm_moe_dsa"};
  static constexpr const char* kClasses[] = {
      "GPT2LMHeadModel",     "LlamaForCausalLM",      "MistralForCausalLM",
      "Qwen2ForCausalLM",    "Qwen3ForCausalLM",      "MixtralForCausalLM",
      "Qwen3MoeForCausalLM", "DeepseekV3ForCausalLM", "GlmMoeDsaForCausalLM"};
  const auto family = static_cast<size_t>(config.family);
  SXT_CHECK((config.activation == HfActivation::Silu) == (config.family != HfFamily::Gpt2), Usage,
            "a ", kTypes[family], " config cannot have this activation");
  ordered_json out;
  out["architectures"] = ordered_json::array({kClasses[family]});
  out["model_type"] = kTypes[family];
  out["vocab_size"] = config.vocab;
  if (config.family == HfFamily::Gpt2) {
    write_gpt2(out, config);
  } else {
    write_llama_like(out, config);
  }
  out["tie_word_embeddings"] = config.tied;
  write_hf_tokens(out, config.tokens);
  out["dtype"] = config.dtype;
  out["torch_dtype"] = config.dtype;  // the name before transformers 4.56
  return out.dump(2) + "\n";
}

}  // namespace sextant
