#include "parallel/param.h"

namespace sextant {

bool is_linear(const LayerSpec& layer, const ParamSpec& spec) {
  if (spec.shape.size() != 2 || layer.kind == LayerKind::Embedding || layer.kind == LayerKind::Head)
    return false;
  for (const char* name : {".router.weight", ".q_a.weight", ".kv_a.weight", ".k_rope.weight"})
    if (spec.name == layer.name + name) return false;
  return true;
}

bool has_experts(const ParamSpec& spec) {
  return spec.name.find(".experts.") != std::string::npos;
}

std::vector<Param> make_params(const Blueprint& blueprint, const GroupPlan& plan) {
  std::vector<const ParamSpec*> specs;
  std::vector<bool> linear;
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& spec : layer.params) {
      specs.push_back(&spec);
      linear.push_back(is_linear(layer, spec));
    }
  std::vector<Param> params;
  for (const int number : plan.params) {
    const ParamSpec& spec = *specs[static_cast<size_t>(number)];
    Param param;
    param.name = spec.name;
    param.shape = Shape{std::span<const int64_t>(spec.shape)};
    param.decay = spec.decay;
    param.whole = Shape{std::span<const int64_t>(spec.whole)};
    param.valid_rows = spec.valid_rows;
    param.fragment = spec.fragment;
    param.shared = spec.shared;
    param.copies = spec.copies;
    param.is_partial = spec.is_partial;
    param.router_state = spec.router_state;
    param.is_linear = linear[static_cast<size_t>(number)];
    if (has_experts(spec)) {
      param.experts = blueprint.model.experts;
      param.own_experts =
          even_part(param.experts, blueprint.experts.degree, blueprint.experts.rank);
    }
    params.push_back(std::move(param));
  }
  return params;
}

}  // namespace sextant
