#include "model/chosen_experts.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

TEST(ChosenExperts, NotesWhatARunChoseAndLeavesIt) {
  ChosenExperts own;
  std::vector<int32_t> choices = {0, 1, 2, 3};
  EXPECT_FALSE(own.exchange("router", std::vector<int32_t>{3, 1}, choices));
  EXPECT_EQ(choices, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(own.own().at("router").experts, (std::vector<int32_t>{-1, -1, 2, 3, -1, -1, 0, 1}));
  EXPECT_EQ(own.own().at("router").tokens(), 4);
}

TEST(ChosenExperts, FollowsATableWhereItKnowsTheToken) {
  const ChosenExperts::Table followed = {{"router", {2, {0, 1, -1, -1, 3, 2}}}};
  ChosenExperts run(followed);
  std::vector<int32_t> choices = {1, 0, 1, 2, 3, 2, 0, 3};
  EXPECT_TRUE(run.exchange("router", std::vector<int32_t>{0, 1, 2, 9}, choices));
  EXPECT_EQ(choices, (std::vector<int32_t>{0, 1, 1, 2, 3, 2, 0, 3}));
  EXPECT_EQ(run.own().at("router").experts[0], 1);  // its own choice
  EXPECT_FALSE(run.exchange("another", std::vector<int32_t>{0}, choices));
}

TEST(ChosenExperts, CountsTokensWhoseExpertsDifferInAnyOrder) {
  const ChosenExperts::Choices a = {2, {0, 1, 2, 3, 0, 3, -1, -1}};
  EXPECT_EQ(differing_tokens(a, {2, {1, 0, 2, 1, 3, 0, 0, 1}}), 1);
  EXPECT_EQ(differing_tokens(a, a), 0);
  EXPECT_EQ(differing_tokens(a, {}), 0);
}

}  // namespace
}  // namespace sextant
