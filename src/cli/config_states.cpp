#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "blueprint/states.h"
#include "cli/config_mesh.h"
#include "cli/print.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

struct States {
  int64_t ranks, memory;
  int64_t parameters;  // 0: not asked
};

// Without a name, those of bf16 weights and gradients with an fp32 master copy.
bool is_asked(const StatesQuestion& question, const NamedRecipe& recipe) {
  const std::string_view name = recipe.name;
  if (!question.moments.empty() && question.moments != recipe.moments) return false;
  if (question.recipe.empty()) return name == "16" || name == "12";
  return question.recipe == "all" || question.recipe == name;
}

Json recipe_json(const NamedRecipe& named, const States& states) {
  const StateRecipe& recipe = named.bytes;
  Json modes = Json::array();
  Json parts = Json::array();
  for (const StatePart& part : parts_of(recipe))
    parts.push_back(
        {{"name", part.name}, {"bytes", part.bytes}, {"sharded_from_zero", part.sharded_from}});
  for (int stage = 0; stage < kStages; ++stage) {
    const double each = state_bytes(recipe, stage, states.ranks);
    modes.push_back({{"mode", stage_name(stage)},
                     {"zero", stage},
                     {"bytes_per_parameter", each},
                     {"floor", state_floor(recipe, stage)},
                     {"largest", largest_model(recipe, stage, states.ranks, states.memory)}});
    if (states.parameters > 0)
      modes.back()["bytes"] = each * static_cast<double>(states.parameters);
  }
  return {{"recipe", named.name},
          {"moments", named.moments},
          {"weights", recipe.weights},
          {"gradients", recipe.gradients},
          {"optimizer", recipe.optimizer()},
          {"parts", parts},
          {"modes", modes}};
}

}  // namespace

void show_states(Context& context, const StatesQuestion& question) {
  SXT_CHECK(question.ranks >= 1, Usage, "--ranks ", question.ranks, ": takes 1 or more");
  const std::optional<int64_t> memory = parse_bytes(question.memory);
  SXT_CHECK(memory && *memory > 0, Usage, "--memory ", question.memory,
            ": takes bytes above 0, such as 80GB or 24GiB");
  const std::optional<int64_t> parameters =
      question.parameters.empty() ? 0 : parse_count(question.parameters);
  SXT_CHECK(parameters && (*parameters > 0 || question.parameters.empty()), Usage, "--parameters ",
            question.parameters, ": takes a number above 0, such as 7B or 124M");
  const States states{question.ranks, *memory, *parameters};
  Json recipes = Json::array();
  for (const NamedRecipe& recipe : state_recipes()) {
    if (!is_asked(question, recipe)) continue;
    recipes.push_back(recipe_json(recipe, states));
    if (context.json) continue;
    if (recipes.size() > 1) print_line("");
    print_line(
        concat(recipe.text, "; bytes per parameter, on ", question.ranks, " x ", question.memory));
    print(states_text(recipe.bytes, states.ranks, states.memory));
    if (states.parameters == 0) continue;
    print_line(concat(question.parameters, " parameters, bytes on each rank"));
    print(model_states_text(recipe.bytes, states.ranks, states.parameters));
  }
  SXT_CHECK(!recipes.empty(), Usage, "--recipe ", question.recipe, " has not --moments ",
            question.moments);
  if (!context.json) return;
  Json out{{"ranks", states.ranks}, {"memory", states.memory}};
  if (states.parameters > 0) out["parameters"] = states.parameters;
  out["recipes"] = recipes;
  print_json(out);
}

}  // namespace sextant::cli
