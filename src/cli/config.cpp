#include <memory>

#include "cli/command.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "config/show.h"

namespace sextant::cli {
namespace {

Command show_command() {
  const auto path = std::make_shared<std::string>();
  return {"show",
          "Every setting with its value and where that came from",
          {{"run.toml", "Configuration file", path.get()}},
          [path](Context& context) {
            const ResolvedConfig resolved = load_settings(context, *path);
            if (context.json)
              print_line(show_json(resolved));
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
              print_line(diff_json(differences));
            else
              print(diff_text(differences));
            return 0;
          },
          Accepts::Overrides};
}

Command keys_command() {
  const auto markdown = std::make_shared<bool>(false);
  return {"keys",
          "Every setting with what it accepts, its default and its meaning",
          {{"--markdown", "As the reference page", markdown.get()}},
          [markdown](Context& context) {
            if (context.json)
              print_line(keys_json());
            else
              print(*markdown ? keys_markdown() : keys_text());
            return 0;
          }};
}

}  // namespace

Command config_command() {
  Command command{"config", "Show, compare and list settings"};
  command.subcommands = {show_command(), diff_command(), keys_command()};
  return command;
}

}  // namespace sextant::cli
