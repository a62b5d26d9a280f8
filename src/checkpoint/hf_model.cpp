#include <utility>

#include "base/error.h"
#include "checkpoint/hf.h"

namespace sextant {
namespace {

// Models of this preset have a config.json of their own, GlmMoeDsa.
constexpr const char* kGlm = "glm-5";

Family family_of(HfFamily family) {
  switch (family) {
    case HfFamily::Gpt2:
      return Family::Gpt2;
    case HfFamily::Llama:
      return Family::Llama;
    case HfFamily::Mistral:
      return Family::Mistral;
    case HfFamily::Qwen2:
      return Family::Qwen2;
    case HfFamily::Qwen3:
      return Family::Qwen3;
    case HfFamily::Mixtral:
      return Family::Mixtral;
    case HfFamily::Qwen3Moe:
      return Family::Qwen3Moe;
    case HfFamily::DeepseekV3:
    case HfFamily::GlmMoeDsa:
      return Family::DeepseekMoe;
  }
  SXT_FAIL(Internal, "unknown Hugging Face family");
}

HfFamily hf_family_of(const ModelConfig& model) {
  switch (model.family) {
    case Family::Gpt2:
      return HfFamily::Gpt2;
    case Family::Llama:
      return HfFamily::Llama;
    case Family::Mistral:
      return HfFamily::Mistral;
    case Family::Qwen2:
      return HfFamily::Qwen2;
    case Family::Qwen3:
      return HfFamily::Qwen3;
    case Family::Mixtral:
      return HfFamily::Mixtral;
    case Family::Qwen3Moe:
      return HfFamily::Qwen3Moe;
    case Family::DeepseekMoe:
      return model.preset == kGlm ? HfFamily::GlmMoeDsa : HfFamily::DeepseekV3;
  }
  SXT_FAIL(Internal, "unknown model family");
}

const char* name_of(RouterKind router) {
  constexpr const char* kNames[] = {"softmax-after", "softmax-before", "balanced", "sigmoid"};
  return kNames[static_cast<size_t>(router)];
}

void read_deepseek(ModelConfig& model, const HfConfig& hf) {
  model.q_lora_rank = hf.q_lora_rank;
  model.kv_lora_rank = hf.kv_lora_rank;
  model.qk_rope_head_dim = hf.rope_dim;
  model.v_head_dim = hf.value_dim;
  model.experts = hf.experts;
  model.experts_per_token = hf.experts_per_token;
  model.expert_ffn = hf.expert_ffn;
  model.shared_experts = hf.shared_experts;
  model.dense_layers = hf.dense_layers;
  if (model.dense_layers == 0) model.ffn = 0;
  model.router = RouterKind::Sigmoid;
  model.router_groups = hf.router_groups;
  model.groups_per_token = hf.groups_per_token;
  model.router_normalize = hf.renormalised;
  model.router_scale = hf.router_scale;
}

void write_deepseek(HfConfig& hf, const ModelConfig& model) {
  SXT_CHECK(model.router == RouterKind::Sigmoid, Usage,
            "a deepseek-moe config cannot have model.router = ", name_of(model.router),
            ": sigmoid works");
  hf.q_lora_rank = model.q_lora_rank;
  hf.kv_lora_rank = model.kv_lora_rank;
  hf.rope_dim = model.qk_rope_head_dim;
  hf.value_dim = model.v_head_dim;
  hf.experts = model.experts;
  hf.experts_per_token = model.experts_per_token;
  hf.expert_ffn = model.expert_ffn;
  hf.shared_experts = model.shared_experts;
  hf.dense_layers = model.dense_layers;
  if (model.dense_layers == 0) hf.ffn = model.expert_ffn;  // used by no layer, but must be there
  hf.router_groups = model.router_groups;
  hf.groups_per_token = model.groups_per_token;
  hf.renormalised = model.router_normalize;
  hf.router_scale = model.router_scale;
}

RopeScaling rope_scaling_of(const HfRopeScaling& hf) {
  static constexpr RopeType kTypes[] = {RopeType::Llama3, RopeType::Linear, RopeType::Yarn};
  return {.factor = hf.factor,
          .low_freq_factor = hf.low_freq_factor,
          .high_freq_factor = hf.high_freq_factor,
          .original_seq = hf.original_positions,
          .type = kTypes[static_cast<size_t>(hf.type)],
          .beta_fast = hf.beta_fast,
          .beta_slow = hf.beta_slow,
          .attention_factor = hf.attention_factor,
          .mscale = hf.mscale,
          .mscale_all_dim = hf.mscale_all_dim};
}

HfRopeScaling hf_rope_scaling_of(const RopeScaling& rope) {
  static constexpr HfRopeType kTypes[] = {HfRopeType::Llama3, HfRopeType::Linear, HfRopeType::Yarn};
  return {.factor = rope.factor,
          .low_freq_factor = rope.low_freq_factor,
          .high_freq_factor = rope.high_freq_factor,
          .original_positions = rope.original_seq,
          .type = kTypes[static_cast<size_t>(rope.type)],
          .beta_fast = rope.beta_fast,
          .beta_slow = rope.beta_slow,
          .attention_factor = rope.attention_factor,
          .mscale = rope.mscale,
          .mscale_all_dim = rope.mscale_all_dim};
}

std::string hf_dtype(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "float32";
    case DType::BF16:
      return "bfloat16";
    case DType::F16:
      return "float16";
    default:
      SXT_FAIL(Usage, "export to ", name_of(dtype), "; f32, bf16 and f16 are possible");
  }
}

}  // namespace

ModelConfig model_config_from_hf(const HfConfig& hf) {
  ModelConfig model;
  model.family = family_of(hf.family);
  if (hf.family == HfFamily::GlmMoeDsa) model.preset = kGlm;
  model.layers = hf.layers;
  model.hidden = hf.hidden;
  model.heads = hf.heads;
  model.kv_heads = hf.kv_heads;
  model.head_dim = hf.head_dim;
  model.ffn = hf.ffn;
  model.vocab = hf.vocab;
  model.seq = hf.positions;
  model.tied = hf.tied;
  model.norm_eps = hf.norm_eps;
  if (model.family == Family::Gpt2) {
    model.gelu_exact = hf.activation == HfActivation::GeluExact;
    return model;
  }
  model.attention_bias = hf.attention_bias;
  model.mlp_bias = hf.mlp_bias;
  model.sliding_window = hf.window;
  model.rope_theta = hf.rope_theta;
  if (model.family == Family::DeepseekMoe) {
    read_deepseek(model, hf);
  } else if (has_experts(model.family)) {
    model.expert_ffn = std::exchange(model.ffn, 0);
    model.experts = hf.experts;
    model.experts_per_token = hf.experts_per_token;
    model.router = hf.renormalised ? RouterKind::SoftmaxAfter : RouterKind::SoftmaxBefore;
  }
  if (hf.rope_scaling) model.rope_scaling = rope_scaling_of(*hf.rope_scaling);
  return model;
}

HfConfig hf_config_from_model(const ModelConfig& model, DType dtype) {
  HfConfig hf;
  hf.family = hf_family_of(model);
  hf.layers = model.layers;
  hf.hidden = model.hidden;
  hf.heads = model.heads;
  hf.kv_heads = model.kv_heads;
  hf.head_dim = model.head_dim;
  hf.ffn = model.ffn;
  hf.vocab = model.vocab;
  hf.positions = model.seq;
  hf.tied = model.tied;
  hf.norm_eps = model.norm_eps;
  hf.dtype = hf_dtype(dtype);
  if (model.family == Family::Gpt2) {
    hf.activation = model.gelu_exact ? HfActivation::GeluExact : HfActivation::GeluTanh;
    return hf;
  }
  hf.activation = HfActivation::Silu;
  hf.attention_bias = model.attention_bias;
  hf.mlp_bias = model.mlp_bias;
  hf.window = model.sliding_window;
  if (model.family == Family::DeepseekMoe) {
    write_deepseek(hf, model);
  } else if (has_experts(model.family)) {
    const bool renormalises = model.router == RouterKind::SoftmaxAfter;
    SXT_CHECK(renormalises ||
                  (model.family == Family::Qwen3Moe && model.router == RouterKind::SoftmaxBefore),
              Usage, "a ", name_of(model.family),
              " config cannot have model.router = ", name_of(model.router), ": softmax-after works",
              model.family == Family::Qwen3Moe ? ", softmax-before too" : "");
    SXT_CHECK(model.shared_experts == 0 && model.dense_layers == 0, Usage, "a ",
              name_of(model.family),
              " config cannot have model.shared_experts = ", model.shared_experts,
              " and model.dense_layers = ", model.dense_layers, ": 0 of both works");
    hf.ffn = model.expert_ffn;
    hf.experts = model.experts;
    hf.experts_per_token = model.experts_per_token;
    hf.renormalised = renormalises;
  }
  hf.rope_theta = model.rope_theta;
  if (model.rope_scaling.factor != 1) hf.rope_scaling = hf_rope_scaling_of(model.rope_scaling);
  return hf;
}

}  // namespace sextant
