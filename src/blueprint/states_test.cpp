#include "blueprint/states.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "support/expect_error.h"

namespace sextant {
namespace {

const StateRecipe& recipe_of(const std::string& name) {
  return std::ranges::find(state_recipes(), name, &NamedRecipe::name)->bytes;
}

TEST(States, SixteenBytesDivideAsTheZeroPaperSays) {
  const StateRecipe recipe = recipe_of("16");
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
  const StateRecipe recipe = recipe_of("16");
  const double floors[] = {16, 4, 2, 0};
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_EQ(state_floor(recipe, stage), floors[stage]);
    EXPECT_NEAR(state_bytes(recipe, stage, 1'000'000'000), floors[stage], 1e-7);
  }
}

// The published table of the largest model on 8 x 80 GB: 6.66, 16, 24.62 and 53.33 billions.
TEST(States, EightTimesEightyGigabytesHoldThePublishedModels) {
  const StateRecipe recipe = recipe_of("12");
  EXPECT_EQ(recipe.total(), 12);
  const double bytes[] = {12, 5, 3.25, 1.5};
  const int64_t largest[] = {6'666'666'666, 16'000'000'000, 24'615'384'615, 53'333'333'333};
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_DOUBLE_EQ(state_bytes(recipe, stage, 8), bytes[stage]);
    EXPECT_EQ(largest_model(recipe, stage, 8, 80'000'000'000), largest[stage]);
  }
  const double with_fp32[] = {5, 14.5455, 21.3333, 40};
  for (int stage = 0; stage < kStages; ++stage)
    EXPECT_NEAR(static_cast<double>(largest_model(recipe_of("16"), stage, 8, 80'000'000'000)) / 1e9,
                with_fp32[stage], 5e-5);
}

TEST(States, TheTableListsEachPartAndCutsSoThatWhatItPrintsFits) {
  EXPECT_EQ(states_text(recipe_of("12"), 8, 80'000'000'000),
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
  const std::string text = states_text(recipe_of("16"), 3, 80'000'000'000);
  EXPECT_NE(text.find("sum                       16           8     6.66667     5.33333\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("largest model         5.000B     10.000B     12.000B     15.000B\n"),
            std::string::npos)
      << text;
}

// 80 GB hold exactly 15 billion parameters of 2 + 10/3 bytes.
TEST(States, ThreeRanksHoldAllThatFits) {
  const std::string text = states_text(recipe_of("12"), 3, 80'000'000'000);
  EXPECT_NE(text.find("largest model         6.666B     12.000B     15.000B     20.000B\n"),
            std::string::npos)
      << text;
  // The most that fits, and not one more.
  for (const NamedRecipe& recipe : state_recipes())
    for (int64_t ranks = 1; ranks <= 64; ++ranks)
      for (int stage = 0; stage < kStages; ++stage) {
        const int64_t memory = 80'000'000'000;
        const int64_t whole = state_floor(recipe.bytes, stage);
        const int64_t each = whole * ranks + recipe.bytes.total() - whole;  // times the ranks
        const int64_t largest = largest_model(recipe.bytes, stage, ranks, memory);
        EXPECT_LE(largest * each, memory * ranks) << recipe.name << " " << stage << " " << ranks;
        EXPECT_GT((largest + 1) * each, memory * ranks);
      }
  const int64_t endless = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(largest_model(recipe_of("8"), 3, 1 << 20, endless), endless);
}

TEST(States, RecipesAreCalledByTheirBytes) {
  EXPECT_EQ(recipe_of("fp32").total(), 16);
  EXPECT_EQ(recipe_of("fp32").optimizer(), 8);
  for (const int64_t bytes : {18, 16, 12, 8})
    EXPECT_EQ(recipe_of(std::to_string(bytes)).total(), bytes);
  EXPECT_EQ(recipe_of("12").optimizer(), 8);
}

// Published examples: 7B in fp32 take 28 + 28 + 56 = 112 GB, 70B of 16 bytes 1,120 GB; weights
// alone of 70B 140 GB, of 405B 810 GB, of 175B 700 GB in fp32 and 350 GB in bf16.
TEST(States, ModelsTakeThePublishedBytes) {
  const auto ddp = [](const char* recipe, int64_t billions) {
    std::istringstream lines(model_states_text(recipe_of(recipe), 8, billions * 1'000'000'000));
    std::vector<std::string> bytes;
    for (std::string word, size; lines >> word >> size; std::getline(lines, word))
      bytes.push_back(size);
    return bytes;
  };
  EXPECT_EQ(ddp("fp32", 7), (std::vector<std::string>{"28", "28", "56", "112"}));
  EXPECT_EQ(ddp("16", 70), (std::vector<std::string>{"140", "140", "840", "1120"}));
  EXPECT_EQ(ddp("16", 405)[0], "810");
  EXPECT_EQ(ddp("fp32", 175)[0], "700");
  EXPECT_EQ(ddp("16", 175)[0], "350");
  EXPECT_EQ(model_states_text(recipe_of("12"), 8, 70'000'000'000),
            "weights               140 GB      140 GB      140 GB     17.5 GB\n"
            "gradients             140 GB      140 GB     17.5 GB     17.5 GB\n"
            "optimizer             560 GB       70 GB       70 GB       70 GB\n"
            "sum                   840 GB      350 GB    227.5 GB      105 GB\n");
}

TEST(States, RefusesNoRanks) {
  EXPECT_ERROR(state_bytes({}, 1, 0), Config, "ranks = 0");
}

}  // namespace
}  // namespace sextant
