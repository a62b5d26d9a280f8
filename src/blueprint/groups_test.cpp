#include "blueprint/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "config/model_presets.h"

namespace sextant {
namespace {

std::vector<std::string> names_of(const GroupPlan& plan) {
  std::vector<std::string> names;
  for (const GroupSpec& group : plan.groups) names.push_back(group.name);
  return names;
}

Blueprint two_layers(bool tied) {
  ModelConfig model = *model_preset("tiny");
  model.layers = 2;
  model.tied = tied;
  return make_blueprint(model);
}

TEST(Groups, ATiedHeadLivesWithTheEmbedding) {
  const GroupPlan plan = make_groups(two_layers(true));
  EXPECT_EQ(names_of(plan), (std::vector<std::string>{"embedding", "layers.0", "layers.1"}));
  EXPECT_EQ(plan.group_of_layer, (std::vector<int>{0, 1, 1, 2, 2, 0}));
  // tokens and positions, then the two vectors of the last norm; 12 parameters in each block.
  EXPECT_EQ(plan.groups[0].params, (std::vector<int>{0, 1, 26, 27}));
}

TEST(Groups, AnUntiedHeadIsAGroupOfItsOwn) {
  const GroupPlan plan = make_groups(two_layers(false));
  EXPECT_EQ(names_of(plan),
            (std::vector<std::string>{"embedding", "layers.0", "layers.1", "head"}));
  EXPECT_EQ(plan.group_of_layer, (std::vector<int>{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(plan.groups[3].params, (std::vector<int>{26, 27, 28}));
}

TEST(Groups, HaveEveryParameterAndElementOnce) {
  for (const std::string& preset : model_preset_names()) {
    const Blueprint blueprint = make_blueprint(*model_preset(preset));
    const GroupPlan plan = make_groups(blueprint);
    std::vector<int> params;
    int64_t elements = 0;
    for (const GroupSpec& group : plan.groups) {
      EXPECT_TRUE(std::ranges::is_sorted(group.params));
      params.insert(params.end(), group.params.begin(), group.params.end());
      elements += group.elements;
    }
    std::ranges::sort(params);
    std::vector<int> all(params.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(params, all) << preset;
    EXPECT_EQ(elements, blueprint.stored_parameters()) << preset;
    EXPECT_EQ(plan.group_of_layer.size(), blueprint.layers.size());
  }
}

}  // namespace
}  // namespace sextant
