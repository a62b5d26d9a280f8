// Completion scripts. They ask the program itself (complete.h) and tell the shell what it says.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/complete.h"
#include "cli/print.h"

namespace sextant::cli {
namespace {

// Bash replaces only what follows the last "=" or ":" of a word (COMP_WORDBREAKS).
constexpr const char* kBash = R"(_sextant() {
  local line=${COMP_LINE:0:COMP_POINT} cur word
  cur=${line##*[[:space:]]}
  local keep=${cur%"${cur##*[=:]}"}
  COMPREPLY=()
  while IFS= read -r word; do
    case $word in *[=./]) ;; *) word+=' ' ;; esac
    COMPREPLY+=("${word#"$keep"}")
  done < <("${COMP_WORDS[0]}" completion --line "$line" 2>/dev/null)
  compopt -o nospace
}
complete -F _sextant sextant
)";

constexpr const char* kZsh = R"(#compdef sextant
_sextant() {
  local line="${(j: :)words[1,CURRENT-1]} $PREFIX"
  local -a all open ended
  all=("${(@f)$(${words[1]} completion --line "$line" 2>/dev/null)}")
  open=(${(M)all:#*[=./]})
  ended=(${all:#*[=./]})
  (( $#open )) && compadd -S '' -- $open
  (( $#ended )) && compadd -- $ended
}
if [ "$funcstack[1]" = _sextant ]; then _sextant "$@"; else compdef _sextant sextant; fi
)";

constexpr const char* kFish = R"(complete -c sextant -e
complete -c sextant -f -a '(set -l words (commandline -opc); $words[1] completion --line (string join " " -- $words (commandline -ct)) 2>/dev/null)'
)";

struct CompletionArguments {
  std::string shell = "bash", line;
};

int run_completion(const CompletionArguments& arguments, Context& context) {
  if (!arguments.line.empty()) {
    const std::vector<std::string> words = complete(context.storage, arguments.line);
    if (context.json)
      print_json({{"words", words}});
    else
      for (const std::string& word : words) print_unchanged(word + "\n");
    return 0;
  }
  const char* const script = arguments.shell == "fish"  ? kFish
                             : arguments.shell == "zsh" ? kZsh
                                                        : kBash;
  if (context.json)
    print_json({{"shell", arguments.shell}, {"script", script}});
  else
    print_unchanged(script);
  return 0;
}

}  // namespace

Command completion_command() {
  const auto arguments = std::make_shared<CompletionArguments>();
  return {"completion",
          "A completion script for your shell: source <(sextant completion bash)",
          {{"shell",
            "bash, zsh or fish",
            &arguments->shell,
            Option::Need::Optional,
            {"bash", "zsh", "fish"}},
           {"--line", "Instead, what may end this command line: the scripts ask for it",
            &arguments->line}},
          [arguments](Context& context) { return run_completion(*arguments, context); }};
}

}  // namespace sextant::cli
