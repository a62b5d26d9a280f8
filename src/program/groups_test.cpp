#include "program/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "config/model_presets.h"
#include "program/pipeline.h"
#include "schedule/make_schedule.h"

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
  // Tokens and positions, then the two vectors of the last norm; 12 parameters in each block.
  EXPECT_EQ(plan.groups[0].params, (std::vector<int>{0, 1, 26, 27}));
}

TEST(Groups, AnUntiedHeadIsAGroupOfItsOwn) {
  const GroupPlan plan = make_groups(two_layers(false));
  EXPECT_EQ(names_of(plan),
            (std::vector<std::string>{"embedding", "layers.0", "layers.1", "head"}));
  EXPECT_EQ(plan.group_of_layer, (std::vector<int>{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(plan.groups[3].params, (std::vector<int>{26, 27, 28}));
}

TEST(Groups, ExpertsAreAGroupOfTheirOwnWithExpertParallelismOnly) {
  ModelConfig model = *model_preset("tiny-mixtral");
  model.layers = 2;
  EXPECT_EQ(names_of(make_groups(make_blueprint(model))),
            (std::vector<std::string>{"embedding", "layers.0", "layers.1", "head"}));
  const Blueprint split = make_blueprint(model, {}, {4, 1});
  const GroupPlan plan = make_groups(split);
  EXPECT_EQ(names_of(plan), (std::vector<std::string>{"embedding", "layers.0", "layers.0.experts",
                                                      "layers.1", "layers.1.experts", "head"}));
  EXPECT_EQ(plan.group_of_layer, (std::vector<int>{0, 1, 1, 3, 3, 5}));
  EXPECT_EQ(plan.experts_of_layer, (std::vector<int>{-1, -1, 2, -1, 4, -1}));
  EXPECT_EQ(plan.groups[2].elements, 2 * 3 * 64 * 128);  // two of eight experts
  // Experts 2 and 3 of the whole.
  const ParamSpec& down = split.layers[2].params.back();
  EXPECT_EQ(down.name, "layers.0.moe.experts.down.weight");
  EXPECT_EQ(down.fragment.rows, (std::vector<Range>{{2 * 64, 4 * 64}}));
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

std::vector<GroupPlan> plans_of(const Blueprint& blueprint, const char* schedule, int ranks) {
  ParallelConfig parallel;
  parallel.pp = ranks;
  parallel.schedule = schedule;
  const Pipeline pipeline = make_pipeline(blueprint, parallel, 2 * ranks);
  std::vector<GroupPlan> plans;
  for (int rank = 0; rank < ranks; ++rank)
    plans.push_back(make_groups(blueprint, part_of(blueprint, pipeline, rank)));
  return plans;
}

TEST(Groups, OfARankAreThoseOfItsLayers) {
  const std::vector<GroupPlan> plans = plans_of(two_layers(false), "1f1b", 2);
  EXPECT_EQ(names_of(plans[0]), (std::vector<std::string>{"embedding", "layers.0"}));
  EXPECT_EQ(names_of(plans[1]), (std::vector<std::string>{"layers.1", "head"}));
  EXPECT_EQ(plans[1].group_of_layer, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(plans[1].reads_in_backward, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(plans[0].reads_in_backward, (std::vector<bool>{false, true, true}));
  // 2 tables and 12 parameters of a block come before; indices count within the rank.
  EXPECT_EQ(plans[1].params.front(), 14);
  EXPECT_EQ(plans[1].groups[0].params.front(), 0);
  EXPECT_EQ(plans[1].groups[1].params, (std::vector<int>{12, 13, 14}));
  EXPECT_EQ(plans[1].groups[1].number, 3);
  for (const GroupPlan& plan : plans)
    for (const GroupSpec& group : plan.groups) EXPECT_FALSE(group.is_duplicated);
}

// Both ends hold the whole group of a tied embedding: the tables and the head's norm.
TEST(Groups, ATiedGroupIsWholeOnBothEndsOfALine) {
  const std::vector<GroupPlan> plans = plans_of(two_layers(true), "1f1b", 2);
  EXPECT_EQ(names_of(plans[1]), (std::vector<std::string>{"embedding", "layers.1"}));
  EXPECT_EQ(plans[1].group_of_layer, (std::vector<int>{1, 1, 0}));
  for (const GroupPlan& plan : plans) {
    EXPECT_EQ(plan.groups[0].elements, plans[0].groups[0].elements);
    EXPECT_EQ(plan.groups[0].params, (std::vector<int>{0, 1, 14, 15}));
    EXPECT_TRUE(plan.groups[0].is_duplicated);
    EXPECT_FALSE(plan.groups[1].is_duplicated);
  }
}

TEST(Groups, OnlyTheEndsOfALineHaveATiedDuplicate) {
  ModelConfig model = *model_preset("tiny");
  const std::vector<GroupPlan> plans = plans_of(make_blueprint(model), "1f1b", 4);
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(plans[rank].groups[0].is_duplicated, rank == 0 || rank == 3) << rank;
  EXPECT_EQ(plans[1].groups.size(), 1u);
}

// First and last stage on one rank: one tensor.
TEST(Groups, ATiedGroupOfAVHasNoDuplicate) {
  const std::vector<GroupPlan> plans = plans_of(make_blueprint(*model_preset("tiny")), "zb-v", 2);
  EXPECT_EQ(names_of(plans[0]), (std::vector<std::string>{"embedding", "layers.0", "layers.3"}));
  EXPECT_EQ(plans[0].group_of_layer, (std::vector<int>{0, 1, 1, 2, 2, 0}));
  for (const GroupPlan& plan : plans)
    for (const GroupSpec& group : plan.groups) EXPECT_FALSE(group.is_duplicated);
}

// Rank 3 holds the stages of rank 0 in reverse order, but the groups in the model's order.
TEST(Groups, AllGroupsOfAMirroredPairAreDuplicates) {
  const std::vector<GroupPlan> plans =
      plans_of(make_blueprint(*model_preset("tiny")), "dualpipe", 4);
  for (const auto& [one, other] : {std::pair{0, 3}, {1, 2}}) {
    const GroupPlan &a = plans[static_cast<size_t>(one)], &b = plans[static_cast<size_t>(other)];
    EXPECT_EQ(names_of(a), names_of(b));
    EXPECT_EQ(a.params, b.params);
    EXPECT_NE(a.group_of_layer, b.group_of_layer);
    for (const GroupPlan* plan : {&a, &b})
      for (const GroupSpec& group : plan->groups) EXPECT_TRUE(group.is_duplicated);
  }
}

TEST(Groups, OfAllRanksHaveEveryParameter) {
  for (const std::string& schedule : schedule_names()) {
    const Blueprint blueprint = make_blueprint(*model_preset("tiny-llama"));
    std::vector<int> holders(make_groups(blueprint).params.size());
    for (const GroupPlan& plan : plans_of(blueprint, schedule.c_str(), 4))
      for (const int param : plan.params) ++holders[static_cast<size_t>(param)];
    const bool is_mirrored = schedule == "dualpipe";
    // The embedding's weight is first, the head's norm last: one group, on two pipeline ranks.
    for (size_t i = 0; i < holders.size(); ++i) {
      const bool is_end = i == 0 || i + 1 == holders.size();
      const bool is_line = !schedule.starts_with("v-") && !schedule.ends_with("-v");
      EXPECT_EQ(holders[i], is_mirrored || (is_end && is_line) ? 2 : 1) << schedule << " " << i;
    }
  }
}

}  // namespace
}  // namespace sextant
