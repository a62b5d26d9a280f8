#include "blueprint/states.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(States, SixteenBytesDivideAsTheZeroPaperSays) {
  const StateRecipe recipe = mixed_precision(4);
  EXPECT_EQ(recipe.total(), 16);
  for (const int64_t n : {1, 2, 3, 8, 64, 1024}) {
    const auto ranks = static_cast<double>(n);
    EXPECT_DOUBLE_EQ(state_bytes(recipe, 0, n), 16);
    EXPECT_DOUBLE_EQ(state_bytes(recipe, 1, n), 4 + 12 / ranks);
    EXPECT_DOUBLE_EQ(state_bytes(recipe, 2, n), 2 + 14 / ranks);
    EXPECT_DOUBLE_EQ(state_bytes(recipe, 3, n), 16 / ranks);
  }
}

TEST(States, ManyRanksApproachWhatIsNotDivided) {
  const StateRecipe recipe = mixed_precision(4);
  const double floors[] = {16, 4, 2, 0};
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_EQ(state_floor(recipe, stage), floors[stage]);
    EXPECT_NEAR(state_bytes(recipe, stage, 1'000'000'000), floors[stage], 1e-7);
  }
}

// The published table of the largest model on 8 x 80 GB: 6.66, 16, 24.62 and 53.33 billions.
TEST(States, EightTimesEightyGigabytesHoldThePublishedModels) {
  const StateRecipe recipe = mixed_precision(2);
  EXPECT_EQ(recipe.total(), 12);
  const double bytes[] = {12, 5, 3.25, 1.5};
  const double billions[] = {6.6667, 16, 24.6154, 53.3333};
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_DOUBLE_EQ(state_bytes(recipe, stage, 8), bytes[stage]);
    EXPECT_NEAR(largest_model(recipe, stage, 8, 80e9) / 1e9, billions[stage], 5e-5);
  }
  const double with_fp32[] = {5, 14.5455, 21.3333, 40};
  for (int stage = 0; stage < kStages; ++stage)
    EXPECT_NEAR(largest_model(mixed_precision(4), stage, 8, 80e9) / 1e9, with_fp32[stage], 5e-5);
}

TEST(States, TheTableListsEachPartAndCutsSoThatWhatItPrintsFits) {
  EXPECT_EQ(states_text(mixed_precision(2), 8, 80'000'000'000),
            "                         DDP      ZeRO-1      ZeRO-2      ZeRO-3\n"
            "weights                    2           2           2         2/8\n"
            "gradients                  2           2         2/8         2/8\n"
            "master weights             4         4/8         4/8         4/8\n"
            "first moment m             2         2/8         2/8         2/8\n"
            "second moment v            2         2/8         2/8         2/8\n"
            "sum                       12           5        3.25         1.5\n"
            "ranks -> oo               12           4           2           0\n"
            "largest model         6.666B     16.000B     24.615B     53.333B\n");
}

TEST(States, ThreeRanksRoundToTheNearest) {
  const std::string text = states_text(mixed_precision(4), 3, 80'000'000'000);
  EXPECT_NE(text.find("sum                       16           8     6.66667     5.33333\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("largest model         5.000B     10.000B     12.000B     15.000B\n"),
            std::string::npos)
      << text;
}

TEST(States, RefusesNoRanks) {
  EXPECT_ERROR(state_bytes({}, 1, 0), Config, "ranks = 0");
}

}  // namespace
}  // namespace sextant
