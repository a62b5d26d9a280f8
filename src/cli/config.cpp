#include <memory>

#include "base/error.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/config_mesh.h"
#include "cli/config_models.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "config/keys.h"
#include "config/show.h"

namespace sextant::cli {
namespace {

Command show_command() {
  const auto path = std::make_shared<std::string>(), svg = std::make_shared<std::string>();
  const auto mesh = std::make_shared<bool>(false);
  return {"show",
          "Every setting with its value and origin; or the mesh of ranks",
          {{"run.toml", "Configuration file", path.get()},
           {"--mesh", "The ranks, their process groups, and the shards that they own", mesh.get()},
           {"--svg", "As --mesh, and draw it into this file", svg.get()}},
          [path, svg, mesh](Context& context) {
            const ResolvedConfig resolved = load_settings(context, *path);
            if (!svg->empty()) write_mesh_svg(context, resolved.config, *svg);
            if (*mesh || !svg->empty())
              show_mesh(context, resolved.config);
            else if (context.json)
              print_unchanged(show_json(resolved) + "\n");
            else
              print(show_text(resolved));
            return 0;
          },
          Accepts::Overrides};
}

Command diff_command() {
  const auto left = std::make_shared<std::string>(), right = std::make_shared<std::string>();
  return {"diff",
          "The settings in which two configurations differ",
          {{"left.toml", "Configuration file", left.get(), Option::Need::Required},
           {"right.toml", "Configuration file", right.get(), Option::Need::Required}},
          [left, right](Context& context) {
            const std::vector<Difference> differences = diff_configs(
                load_settings(context, *left).config, load_settings(context, *right).config);
            if (context.json)
              print_unchanged(diff_json(differences) + "\n");
            else
              print(diff_text(differences));
            return 0;
          },
          Accepts::Overrides};
}

Command keys_command() {
  const auto markdown = std::make_shared<bool>(false);
  const auto word = std::make_shared<std::string>();
  return {"keys",
          "Every setting with what it accepts, its default and its meaning",
          {{"word", "Only settings about this: a part of a name, a word, another program's name",
            word.get()},
           {"--markdown", "As the reference page", markdown.get()}},
          [markdown, word](Context& context) {
            SXT_CHECK(!*markdown || word->empty(), Usage,
                      "--markdown writes the whole page: leave out ", *word);
            const std::vector<const Key*> keys = keys_about(*word);
            SXT_CHECK(!keys.empty(), Usage, "no setting is about '", *word,
                      "'; `sextant config keys` lists them", did_you_mean(*word, key_names()));
            if (context.json)
              print_unchanged(keys_json(keys) + "\n");
            else if (*markdown)
              print_unchanged(keys_markdown());
            else
              print(word->empty() ? keys_text() : keys_text(keys));
            return 0;
          }};
}

Command states_command() {
  const auto ranks = std::make_shared<int64_t>(8);
  const auto memory = std::make_shared<std::string>("80GB"),
             moments = std::make_shared<std::string>(), recipe = std::make_shared<std::string>(),
             parameters = std::make_shared<std::string>();
  return {"states",
          "Bytes per parameter under DDP and ZeRO, and the largest model that fits",
          {{"--ranks", "Ranks that shard the state", ranks.get()},
           {"--memory", "Memory of each, such as 80GB", memory.get()},
           {"--moments",
            "Type of the optimizer's moments; both when not given",
            moments.get(),
            Option::Need::Optional,
            {"fp32", "bf16"}},
           {"--recipe",
            "Its bytes per parameter; 16 and 12 when not given",
            recipe.get(),
            Option::Need::Optional,
            {"fp32", "18", "16", "12", "8", "all"}},
           {"--parameters", "Also the bytes of a model of so many, such as 7B", parameters.get()}},
          [ranks, memory, moments, recipe, parameters](Context& context) {
            show_states(context, {*ranks, *memory, *moments, *recipe, *parameters});
            return 0;
          }};
}

Command activations_command() {
  const auto path = std::make_shared<std::string>(), degrees = std::make_shared<std::string>();
  return {"activations",
          "Bytes that a layer keeps for backward, beside the published formula",
          {{"run.toml", "Configuration file", path.get()},
           {"--tp", "Tensor parallel degrees, such as 2,4,8; by default that of the configuration",
            degrees.get()}},
          [path, degrees](Context& context) {
            show_activations(context, *path, *degrees);
            return 0;
          },
          Accepts::Overrides};
}

Command trace_command() {
  const auto path = std::make_shared<std::string>();
  const auto rank = std::make_shared<int64_t>(0);
  return {
      "trace",
      "Every operation of a rank in a step: its lane, operands, FLOPs, bytes and waits",
      {{"run.toml", "Configuration file", path.get()}, {"--rank", "Rank of the run", rank.get()}},
      [path, rank](Context& context) {
        show_trace(context, *path, *rank);
        return 0;
      },
      Accepts::Overrides};
}

}  // namespace

Command config_command() {
  Command command{"config", "Show, compare and list settings; the mesh of ranks and what it holds"};
  command.subcommands = {show_command(),   diff_command(),        keys_command(), models_command(),
                         states_command(), activations_command(), trace_command()};
  return command;
}

}  // namespace sextant::cli
