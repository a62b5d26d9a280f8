#include "base/error.h"
#include "checkpoint/hf.h"

namespace sextant {
namespace {

Family family_of(HfFamily family) {
  switch (family) {
    case HfFamily::Gpt2:
      return Family::Gpt2;
    case HfFamily::Llama:
      return Family::Llama;
    case HfFamily::Qwen3:
      return Family::Qwen3;
  }
  SXT_FAIL(Internal, "unknown Hugging Face family");
}

HfFamily hf_family_of(Family family) {
  switch (family) {
    case Family::Gpt2:
      return HfFamily::Gpt2;
    case Family::Llama:
      return HfFamily::Llama;
    case Family::Qwen3:
      return HfFamily::Qwen3;
  }
  SXT_FAIL(Internal, "unknown model family");
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
  model.rope_theta = hf.rope_theta;
  if (hf.rope_scaling)
    model.rope_scaling = {hf.rope_scaling->factor, hf.rope_scaling->low_freq_factor,
                          hf.rope_scaling->high_freq_factor, hf.rope_scaling->original_positions};
  return model;
}

HfConfig hf_config_from_model(const ModelConfig& model, DType dtype) {
  HfConfig hf;
  hf.family = hf_family_of(model.family);
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
  hf.rope_theta = model.rope_theta;
  const RopeScaling& scaling = model.rope_scaling;
  if (scaling.factor != 1)
    hf.rope_scaling = HfRopeScaling{scaling.factor, scaling.low_freq_factor,
                                    scaling.high_freq_factor, scaling.original_seq};
  return hf;
}

}  // namespace sextant
