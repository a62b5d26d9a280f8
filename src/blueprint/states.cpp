#include "blueprint/states.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace sextant {
namespace {

// What a ZeRO stage replicates, and what it shards.
struct Split {
  double whole, divided;
};

Split split_of(const StateRecipe& recipe, int stage) {
  SXT_CHECK(stage >= 0 && stage < kStages, Internal, "there is no ZeRO stage ", stage);
  Split split{};
  (stage >= 3 ? split.divided : split.whole) += recipe.weights;
  (stage >= 2 ? split.divided : split.whole) += recipe.gradients;
  (stage >= 1 ? split.divided : split.whole) += recipe.optimizer;
  return split;
}

std::string part(double bytes, bool divided, int64_t ranks) {
  return divided ? concat(bytes, "/", ranks) : concat(bytes);
}

}  // namespace

StateRecipe mixed_precision(double moment_size) {
  return {.weights = 2, .gradients = 2, .optimizer = 4 + 2 * moment_size};
}

double state_bytes(const StateRecipe& recipe, int stage, int64_t ranks) {
  SXT_CHECK(ranks >= 1, Config, "ranks = ", ranks, ": takes 1 or more");
  const Split split = split_of(recipe, stage);
  return split.whole + split.divided / static_cast<double>(ranks);
}

double state_floor(const StateRecipe& recipe, int stage) {
  return split_of(recipe, stage).whole;
}

double largest_model(const StateRecipe& recipe, int stage, int64_t ranks, double memory) {
  return memory / state_bytes(recipe, stage, ranks);
}

std::string stage_name(int stage) {
  return stage == 0 ? "DDP" : concat("ZeRO-", stage);
}

std::string states_text(const StateRecipe& recipe, int64_t ranks, int64_t memory) {
  std::string out =
      "mode    weights + gradients + optimizer  bytes per parameter  ranks -> oo  largest\n";
  for (int stage = 0; stage < kStages; ++stage) {
    const std::string sum = concat(part(recipe.weights, stage >= 3, ranks), " + ",
                                   part(recipe.gradients, stage >= 2, ranks), " + ",
                                   part(recipe.optimizer, stage >= 1, ranks));
    // Truncated, not rounded: the printed size does fit.
    const double billions =
        std::floor(largest_model(recipe, stage, ranks, static_cast<double>(memory)) / 1e6) / 1e3;
    std::array<char, 160> line;
    std::snprintf(line.data(), line.size(), "%-6s  %31s  %19.6g  %11g  %.3fB\n",
                  stage_name(stage).c_str(), sum.c_str(), state_bytes(recipe, stage, ranks),
                  state_floor(recipe, stage), billions);
    out += line.data();
  }
  return out;
}

}  // namespace sextant
