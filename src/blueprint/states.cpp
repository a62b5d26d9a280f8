#include "blueprint/states.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/function_ref.h"

namespace sextant {
namespace {

// What a ZeRO stage replicates, and what it shards.
struct Split {
  int64_t whole, divided;
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

double share_of(const Split& split, int64_t ranks) {
  return static_cast<double>(split.whole) +
         static_cast<double>(split.divided) / static_cast<double>(ranks);
}

}  // namespace

std::array<StatePart, 5> parts_of(const StateRecipe& recipe) {
  return {{{"weights", recipe.weights, 3},
           {"gradients", recipe.gradients, 2},
           {"master weights", recipe.master, 1},
           {"first moment m", recipe.moment, 1},
           {"second moment v", recipe.moment, 1}}};
}

std::span<const NamedRecipe> state_recipes() {
  static constexpr NamedRecipe kRecipes[] = {
      {"fp32", "fp32 weights, gradients and moments", "fp32", {4, 4, 0, 4}},
      {"18", "bf16 weights, fp32 gradients, fp32 master copy, fp32 moments", "fp32", {2, 4, 4, 4}},
      {"16", "bf16 weights and gradients, fp32 master copy, fp32 moments", "fp32", {2, 2, 4, 4}},
      {"12", "bf16 weights and gradients, fp32 master copy, bf16 moments", "bf16", {2, 2, 4, 2}},
      {"8", "bf16 weights, gradients and moments", "bf16", {2, 2, 0, 2}}};
  return kRecipes;
}

double state_bytes(const StateRecipe& recipe, int stage, int64_t ranks) {
  SXT_CHECK(ranks >= 1, Config, "ranks = ", ranks, ": takes 1 or more");
  return share_of(split_of(recipe, stage), ranks);
}

int64_t state_floor(const StateRecipe& recipe, int stage) {
  return split_of(recipe, stage).whole;
}

// In whole numbers: parameters * (whole + divided / ranks) <= memory, both sides times the ranks.
int64_t largest_model(const StateRecipe& recipe, int stage, int64_t ranks, int64_t memory) {
  SXT_CHECK(ranks >= 1, Config, "ranks = ", ranks, ": takes 1 or more");
  __extension__ using Wide = __int128;  // of memory times ranks
  const Split split = split_of(recipe, stage);
  const Wide largest =
      static_cast<Wide>(memory) * ranks / (static_cast<Wide>(split.whole) * ranks + split.divided);
  return static_cast<int64_t>(std::min<Wide>(largest, std::numeric_limits<int64_t>::max()));
}

std::string stage_name(int stage) {
  return stage == 0 ? "DDP" : concat("ZeRO-", stage);
}

std::string states_text(const StateRecipe& recipe, int64_t ranks, int64_t memory) {
  std::string out = row("", [](int stage) { return stage_name(stage); });
  for (const StatePart& part : parts_of(recipe))
    out += row(part.name, [&](int stage) {
      if (part.bytes == 0) return std::string("-");
      return stage >= part.sharded_from ? concat(part.bytes, "/", ranks) : concat(part.bytes);
    });
  out += row("sum", [&](int stage) { return number(state_bytes(recipe, stage, ranks)); });
  out += row("ranks -> oo", [&](int stage) { return number(state_floor(recipe, stage)); });
  out += row("largest model", [&](int stage) {
    // Truncated, not rounded: the printed size does fit.
    const int64_t millions = largest_model(recipe, stage, ranks, memory) / 1'000'000;
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%lld.%03lldB", static_cast<long long>(millions / 1000),
                  static_cast<long long>(millions % 1000));
    return std::string(text.data());
  });
  return out;
}

std::string model_states_text(const StateRecipe& recipe, int64_t ranks, int64_t parameters) {
  const StatePart lines[] = {{"weights", recipe.weights, 3},
                             {"gradients", recipe.gradients, 2},
                             {"optimizer", recipe.optimizer(), 1}};
  const auto gigabytes = [&](double each) {
    return number(each * static_cast<double>(parameters) / 1e9) + " GB";
  };
  std::string out;
  for (const StatePart& line : lines)
    out += row(line.name, [&](int stage) {
      const auto bytes = static_cast<double>(line.bytes);
      return gigabytes(stage >= line.sharded_from ? bytes / static_cast<double>(ranks) : bytes);
    });
  return out + row("sum", [&](int stage) { return gigabytes(state_bytes(recipe, stage, ranks)); });
}

}  // namespace sextant
