#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/hf_tokens.h"

namespace sextant {

enum class HfFamily {
  Gpt2,
  Llama,
  Mistral,
  Qwen2,
  Qwen3,
  Mixtral,
  Qwen3Moe,
  DeepseekV3,
  GlmMoeDsa
};

// Multi-head latent attention, and experts after dense layers. GlmMoeDsa computes the same with
// other defaults, but for its indexer of sparse attention, which is left out.
inline bool is_deepseek(HfFamily family) {
  return family == HfFamily::DeepseekV3 || family == HfFamily::GlmMoeDsa;
}

enum class HfActivation { GeluTanh, GeluExact, Silu };

enum class HfRopeType { Llama3, Linear, Yarn };

// Slowing of the rotary frequencies by `factor`, by rope_type.
struct HfRopeScaling {
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  int64_t original_positions = 8192;                 // llama3, yarn
  HfRopeType type = HfRopeType::Llama3;
  // Of yarn; an attention factor or mscale of 0 is not said.
  double beta_fast = 32, beta_slow = 1;
  double attention_factor = 0, mscale = 0, mscale_all_dim = 0;
  bool operator==(const HfRopeScaling&) const = default;
};

// What a config.json says about a model, each family's defaults filled in. Gpt2 has learned
// positions and biases; the others have rotary positions; Qwen2 has biases of q, k and v; Qwen3 and
// Qwen3Moe norm q and k; Mixtral and Qwen3Moe have experts in every layer, DeepseekV3 and
// GlmMoeDsa after their dense ones.
struct HfConfig {
  HfFamily family = HfFamily::Gpt2;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn = 0;                             // of an expert in Mixtral and Qwen3Moe
  int64_t experts = 0, experts_per_token = 0;  // Mixtral, Qwen3Moe and is_deepseek
  bool renormalised = true;                    // the gates of a token sum to 1 (norm_topk_prob)
  // is_deepseek: head_dim is that of queries and keys, with the rotated columns.
  int64_t q_lora_rank = 0, kv_lora_rank = 0, rope_dim = 0, value_dim = 0;
  int64_t expert_ffn = 0, shared_experts = 0, dense_layers = 0;
  int64_t router_groups = 1, groups_per_token = 1;
  double router_scale = 1;
  int64_t vocab = 0;
  int64_t positions = 0;        // the longest sequence
  bool tied = false;            // the head is the token embedding
  bool attention_bias = false;  // of q, k, v and o: Llama, Qwen3, Qwen3Moe
  bool mlp_bias = false;        // Llama
  int64_t window = 0;           // of sliding window attention, in every layer; 0: none
  HfActivation activation = HfActivation::GeluTanh;
  double norm_eps = 0;
  double rope_theta = 0;                           // of rotary positions
  std::optional<HfRopeScaling> rope_scaling = {};  // of rotary positions
  HfTokens tokens = {};
  std::string dtype = "float32";  // of the stored weights: float32, bfloat16 or float16
  bool operator==(const HfConfig&) const = default;
};

// Reads the layouts of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters). A model
// that would compute something else than these fields can say (other families, windows in
// some layers, other rotary types, quantised weights) is refused with Error(Data), which begins
// with `what` and names the key, its value and what is supported.
HfConfig parse_hf_config(std::string_view text, const std::string& what);

// The config.json of a model, in words that transformers 4 and 5 both read.
std::string hf_config_text(const HfConfig& config);

}  // namespace sextant
