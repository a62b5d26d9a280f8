#include "blueprint/groups.h"

#include "base/error.h"

namespace sextant {
namespace {

// The two layers of a transformer block are used one after the other, so they travel together.
std::string group_name(const LayerSpec& layer) {
  const bool in_block = layer.kind == LayerKind::Attention || layer.kind == LayerKind::Mlp;
  return in_block ? layer.name.substr(0, layer.name.rfind('.')) : layer.name;
}

}  // namespace

GroupPlan make_groups(const Blueprint& blueprint) {
  GroupPlan plan;
  int next_param = 0;
  for (const LayerSpec& layer : blueprint.layers) {
    const std::string name = group_name(layer);
    const bool joins_first = layer.kind == LayerKind::Head && blueprint.model.tied;
    if (!joins_first && (plan.groups.empty() || plan.groups.back().name != name))
      plan.groups.push_back({name, {}, 0});
    const size_t index = joins_first ? 0 : plan.groups.size() - 1;
    SXT_CHECK(!joins_first || plan.groups[0].name == "embedding", Internal,
              "the tied head has no embedding before it");
    plan.group_of_layer.push_back(static_cast<int>(index));
    for (const ParamSpec& param : layer.params) {
      plan.groups[index].params.push_back(next_param++);
      plan.groups[index].elements += param.elements();
    }
  }
  return plan;
}

bool reads_weights_in_backward(LayerKind kind) {
  return kind != LayerKind::Embedding;
}

}  // namespace sextant
