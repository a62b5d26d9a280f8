#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "blueprint/states.h"
#include "cli/config_mesh.h"
#include "cli/print.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Moments {
  const char* name;
  double size;
};

Json recipe_json(const Moments& moments, int64_t ranks, int64_t memory) {
  const StateRecipe recipe = mixed_precision(moments.size);
  Json modes = Json::array();
  Json parts = Json::array();
  for (const StatePart& part : parts_of(recipe))
    parts.push_back(
        {{"name", part.name}, {"bytes", part.bytes}, {"sharded_from_zero", part.sharded_from}});
  for (int stage = 0; stage < kStages; ++stage)
    modes.push_back(
        {{"mode", stage_name(stage)},
         {"zero", stage},
         {"bytes_per_parameter", state_bytes(recipe, stage, ranks)},
         {"floor", state_floor(recipe, stage)},
         {"largest", largest_model(recipe, stage, ranks, static_cast<double>(memory))}});
  return {{"moments", moments.name},
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
  Json recipes = Json::array();
  for (const Moments& moments : {Moments{"fp32", 4}, Moments{"bf16", 2}}) {
    if (!question.moments.empty() && question.moments != moments.name) continue;
    recipes.push_back(recipe_json(moments, question.ranks, *memory));
    if (context.json) continue;
    if (recipes.size() > 1) print_line("");
    print_line(concat("bf16 weights and gradients, fp32 master copy, ", moments.name,
                      " moments; bytes per parameter, on ", question.ranks, " x ",
                      question.memory));
    print(states_text(mixed_precision(moments.size), question.ranks, *memory));
  }
  if (context.json)
    print_json({{"ranks", question.ranks}, {"memory", *memory}, {"recipes", recipes}});
}

}  // namespace sextant::cli
