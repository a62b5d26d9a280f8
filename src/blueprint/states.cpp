#include "blueprint/states.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/function_ref.h"

namespace sextant {
namespace {

// What a ZeRO stage replicates, and what it shards.
struct Split {
  double whole, divided;
};

Split split_of(const StateRecipe& recipe, int stage) {
  SXT_CHECK(stage >= 0 && stage < kStages, Internal, "there is no ZeRO stage ", stage);
  Split split{};
  for (const StatePart& part : parts_of(recipe))
    (stage >= part.sharded_from ? split.divided : split.whole) += part.bytes;
  return split;
}

// A row of the table: its name and a cell for each stage.
std::string row(const char* name, FunctionRef<std::string(int stage)> cell) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%-16s", name);
  std::string out = text.data();
  for (int stage = 0; stage < kStages; ++stage) {
    std::snprintf(text.data(), text.size(), "  %10s", cell(stage).c_str());
    out += text.data();
  }
  return out + "\n";
}

std::string number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

}  // namespace

std::array<StatePart, 5> parts_of(const StateRecipe& recipe) {
  return {{{"weights", recipe.weights, 3},
           {"gradients", recipe.gradients, 2},
           {"master weights", recipe.master, 1},
           {"first moment m", recipe.moment, 1},
           {"second moment v", recipe.moment, 1}}};
}

StateRecipe mixed_precision(double moment_size) {
  return {.weights = 2, .gradients = 2, .master = 4, .moment = moment_size};
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
  std::string out = row("", [](int stage) { return stage_name(stage); });
  for (const StatePart& part : parts_of(recipe))
    out += row(part.name, [&](int stage) {
      return stage >= part.sharded_from ? concat(part.bytes, "/", ranks) : concat(part.bytes);
    });
  out += row("sum", [&](int stage) { return number(state_bytes(recipe, stage, ranks)); });
  out += row("ranks -> oo", [&](int stage) { return number(state_floor(recipe, stage)); });
  out += row("largest model", [&](int stage) {
    // Truncated, not rounded: the printed size does fit.
    const double billions =
        std::floor(largest_model(recipe, stage, ranks, static_cast<double>(memory)) / 1e6) / 1e3;
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.3fB", billions);
    return std::string(text.data());
  });
  return out;
}

}  // namespace sextant
