#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/print.h"
#include "config/keys.h"
#include "config/model_presets.h"

namespace sextant::cli {
namespace {

// The words that may follow a command, all shells alike.
struct Words {
  std::string path;  // "data tokenize"
  std::vector<std::string> words;
};

void collect(const Command& command, const std::string& parent, std::vector<Words>& all) {
  Words at{parent.empty() ? command.name : parent + " " + command.name, {}};
  for (const Command& sub : command.subcommands) at.words.push_back(sub.name);
  if (command.run) {
    for (const char* name : {"--json", "--quiet", "--verbose", "--color", "--help"})
      at.words.push_back(name);
    for (const Option& option : command.options)
      for (const std::string& name : split(option.names, ','))
        if (name.starts_with("--")) at.words.push_back(name);
    if (command.accepts == Accepts::Overrides)
      for (const std::string& key : key_names()) at.words.push_back("--" + key + "=");
  }
  const std::string path = at.path;
  all.push_back(std::move(at));
  for (const Command& sub : command.subcommands) collect(sub, path, all);
}

std::vector<Words> all_words() {
  std::vector<Words> all;
  Words top;
  for (const Command& command : all_commands()) {
    top.words.push_back(command.name);
    collect(command, "", all);
  }
  top.words.push_back("--help");
  top.words.push_back("--version");
  all.insert(all.begin(), top);
  return all;
}

// Cases of a shell's `case` statement over the command path; files are offered beside the words.
std::string cases() {
  std::string text;
  for (const Words& at : all_words())
    text += "    '" + at.path + "') words='" + join(at.words, " ") + "' ;;\n";
  return text;
}

std::string bash_script() {
  return "_sextant() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} path='' words='' word\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case $word in -*|*.*|*/*) ;; *) path=\"${path:+$path }$word\" ;; esac\n"
         "  done\n"
         "  case $path in\n" +
         cases() +
         "    *) words='' ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
         "  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
         "}\n"
         "complete -o filenames -F _sextant sextant\n";
}

std::string zsh_script() {
  return "#compdef sextant\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script();
}

std::string fish_script() {
  std::string text = "complete -c sextant -e\n";
  for (const Words& at : all_words()) {
    std::string condition = at.path.empty() ? "__fish_use_subcommand" : "";
    for (const std::string& part : split(at.path, ' '))
      if (!part.empty())
        condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + part);
    text += "complete -c sextant -n '" + condition + "' -a '" + join(at.words, " ") + "'\n";
  }
  return text;
}

}  // namespace

Command completion_command() {
  const auto shell = std::make_shared<std::string>("bash");
  return {"completion",
          "A completion script for your shell: source <(sextant completion bash)",
          {{"shell",
            "bash, zsh or fish",
            shell.get(),
            Option::Need::Optional,
            {"bash", "zsh", "fish"}}},
          [shell](Context& context) {
            const std::string script = *shell == "fish"  ? fish_script()
                                       : *shell == "zsh" ? zsh_script()
                                                         : bash_script();
            if (context.json)
              print_json({{"shell", *shell}, {"script", script}});
            else
              print(script);
            return 0;
          }};
}

}  // namespace sextant::cli
