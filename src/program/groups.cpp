#include "program/groups.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace sextant {
namespace {

// Attention and MLP of a transformer block are used one after the other, so they form one group.
std::string group_name(const LayerSpec& layer) {
  const bool in_block = layer.kind == LayerKind::Attention || is_feed_forward(layer.kind);
  return in_block ? layer.name.substr(0, layer.name.rfind('.')) : layer.name;
}

// Groups of the whole model; `params` holds indices in the blueprint's order here.
GroupPlan model_groups(const Blueprint& blueprint) {
  GroupPlan plan;
  int next_param = 0;
  for (const LayerSpec& layer : blueprint.layers) {
    const std::string name = group_name(layer);
    const bool joins_first = layer.kind == LayerKind::Head && blueprint.model.tied;
    if (!joins_first && (plan.groups.empty() || plan.groups.back().name != name))
      plan.groups.push_back({name, {}, 0, static_cast<int>(plan.groups.size()), false, false});
    const size_t index = joins_first ? 0 : plan.groups.size() - 1;
    SXT_CHECK(!joins_first || plan.groups[0].name == "embedding", Internal,
              "the tied head has no embedding before it");
    plan.group_of_layer.push_back(static_cast<int>(index));
    plan.experts_of_layer.push_back(-1);
    for (const ParamSpec& param : layer.params) {
      size_t own = index;
      if (param.is_expert) {
        int& experts = plan.experts_of_layer.back();
        if (experts < 0) {
          experts = static_cast<int>(plan.groups.size());
          plan.groups.push_back({name + ".experts", {}, 0, experts, false, true});
        }
        own = static_cast<size_t>(experts);
      }
      plan.groups[own].params.push_back(next_param++);
      plan.groups[own].elements += param.elements();
    }
  }
  return plan;
}

bool is_duplicated(const Blueprint& blueprint, const RankPart& part, const GroupSpec& group) {
  if (part.duplicates != RankPart::Duplicates::Ends)
    return part.duplicates == RankPart::Duplicates::Mirror;
  return group.number == 0 &&
         part.holds(blueprint, LayerKind::Embedding) != part.holds(blueprint, LayerKind::Head);
}

}  // namespace

std::map<int, int64_t> partial_elements(const Blueprint& blueprint, const GroupPlan& plan,
                                        int shards, int shard_rank) {
  std::vector<const ParamSpec*> specs;
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& spec : layer.params) specs.push_back(&spec);
  std::map<int, int64_t> elements;
  for (const GroupSpec& group : plan.groups) {
    const Range owned = even_part(group.elements, shards, shard_rank);
    int64_t first = 0;
    for (const int place : group.params) {
      const int number = plan.params[static_cast<size_t>(place)];
      const ParamSpec& spec = *specs[static_cast<size_t>(number)];
      if (spec.is_partial)
        elements[spec.copies] +=
            overlap({first + spec.shared.begin, first + spec.shared.end}, owned).size();
      first += spec.elements();
    }
  }
  return elements;
}

GroupPlan make_groups(const Blueprint& blueprint) {
  return make_groups(blueprint, whole_model(blueprint));
}

GroupPlan make_groups(const Blueprint& blueprint, const RankPart& part) {
  const GroupPlan model = model_groups(blueprint);
  GroupPlan plan;
  std::map<int, int> place;  // index of a model group among this rank's groups
  for (const size_t layer : part.layers)
    model.for_groups_of(layer, [&](int group) { place[group] = 0; });
  for (auto& [number, index] : place) {
    index = static_cast<int>(plan.groups.size());
    plan.groups.push_back(model.groups[static_cast<size_t>(number)]);
    const std::vector<int>& params = plan.groups.back().params;
    plan.params.insert(plan.params.end(), params.begin(), params.end());
  }
  for (const size_t layer : part.layers) {
    plan.group_of_layer.push_back(place.at(model.group_of_layer[layer]));
    const int experts = model.experts_of_layer[layer];
    plan.experts_of_layer.push_back(experts < 0 ? -1 : place.at(experts));
    plan.reads_in_backward.push_back(blueprint.layers[layer].kind != LayerKind::Embedding);
  }
  std::ranges::sort(plan.params);
  for (GroupSpec& group : plan.groups) {
    group.is_duplicated = is_duplicated(blueprint, part, group);
    for (int& param : group.params)
      param = static_cast<int>(std::ranges::lower_bound(plan.params, param) - plan.params.begin());
  }
  return plan;
}

}  // namespace sextant
