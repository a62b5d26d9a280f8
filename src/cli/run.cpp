// The only file that sees CLI11: builds a parser from the description of the commands.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/other_options.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "config/keys.h"

namespace sextant::cli {
namespace {

struct Globals {
  bool quiet = false, verbose = false, json = false;
  std::string color = "auto";
};

// Refusals in our words: CLI11 checks a value with these before it converts it.
CLI::Validator one_of(const std::vector<std::string>& choices) {
  return CLI::Validator(
      [choices](const std::string& text) -> std::string {
        if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
        return concat("'", text, "' is none of ", join(choices, ", "), did_you_mean(text, choices));
      },
      "");
}

CLI::Validator whole_number(int64_t largest) {
  return CLI::Validator(
      [largest](const std::string& text) -> std::string {
        const std::optional<int64_t> value = parse_int(text);
        if (value && *value >= 0 && *value <= largest) return "";
        return concat("'", text, "': takes a whole number from 0 to ", largest);
      },
      "");
}

CLI::Validator finite_number() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        return parse_double(text) ? "" : concat("'", text, "': takes a finite number");
      },
      "");
}

// The lines of --help, for the terminal or, where there is none, for 80 columns.
class HelpText : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = make_option_name(option, is_positional);
    std::string meaning = make_option_desc(option);
    if (option->get_type_size() != 0) name += " " + option->get_type_name();
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) name += " ...";
    if (option->get_required()) name += " REQUIRED";
    const std::string usual = option->get_default_str();
    if (!usual.empty() && usual.find(',') == std::string::npos)
      name += "=" + usual;
    else if (!usual.empty())
      meaning += "; default: " + join(split(usual, ','), ", ");
    return help_entry(name, meaning, width_);
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return help_entry(sub->get_name(), sub->get_description(), width_);
  }

 private:
  size_t width_ = terminal_width(stdout) > 0 ? terminal_width(stdout) : 80;
};

void add_option(CLI::App& app, const Option& option) {
  const std::string help = with_choices(option.help, option.choices);
  CLI::Option* added = std::visit(
      [&](auto* target) -> CLI::Option* {
        using Target = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<Target, bool>)
          return app.add_flag(option.names, *target, help);
        if constexpr (std::is_same_v<decltype(target), std::string*>)
          if (!option.alone.empty())  // takes --name=value, never the next word
            return app.add_flag(option.names + "{" + option.alone + "}", *target, help);
        CLI::Option* made = app.add_option(option.names, *target, help);
        if constexpr (std::is_same_v<Target, int64_t>) made->check(whole_number(option.largest));
        if constexpr (std::is_same_v<Target, double>) made->check(finite_number());
        if constexpr (!std::is_same_v<Target, std::vector<std::string>>)
          made->capture_default_str();
        return made;
      },
      option.target);
  if (option.need == Option::Need::Required) added->required();
  if (!option.choices.empty()) added->check(one_of(option.choices));
}

void add_globals(CLI::App& app, Globals& globals) {
  app.add_flag("--json", globals.json, "One JSON document on standard output");
  app.add_flag("-q,--quiet", globals.quiet, "Only errors");
  app.add_flag("-v,--verbose", globals.verbose, "More detail");
  const std::vector<std::string> colors = {"auto", "always", "never"};
  app.add_option("--color", globals.color,
                 with_choices("Colour in the log; auto: on a terminal", colors))
      ->check(one_of(colors))
      ->capture_default_str();
}

// Runs what was chosen; the callback only remembers it, so that errors of parsing come first.
struct Chosen {
  const Command* command = nullptr;
};

void add_command(CLI::App& parent, const Command& command, Globals& globals, Chosen& chosen) {
  CLI::App* app = parent.add_subcommand(command.name, command.help);
  add_globals(*app, globals);
  for (const Option& option : command.options) add_option(*app, option);
  if (command.accepts == Accepts::Overrides)
    app->footer("Any setting can be given as --section.key=value (see `sextant config keys`).");
  for (const Command& sub : command.subcommands) add_command(*app, sub, globals, chosen);
  if (!command.subcommands.empty()) app->require_subcommand(command.run ? 0 : 1, 1);
  if (command.run)
    app->callback([&chosen, &command, app] {
      if (app->get_subcommands().empty()) chosen.command = &command;
    });
}

// "--section.key", and no other text that happens to begin with dashes and to hold a dot.
bool names_a_setting(const std::string& name) {
  constexpr const char* kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const size_t dot = name.find('.');
  return name.starts_with("--") && dot != std::string::npos && dot > 2 && dot + 1 < name.size() &&
         name.find_first_not_of(kLetters) == dot &&
         name.find_first_not_of(std::string(kLetters) + ".", dot) == std::string::npos;
}

// --section.key=value and --section.key value; everything else stays for the parser.
std::vector<std::string> take_overrides(std::vector<std::string>& arguments) {
  std::vector<std::string> overrides, rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (!names_a_setting(name)) {
      rest.push_back(argument);
    } else if (equals != std::string::npos) {
      overrides.push_back(argument.substr(2));
    } else {
      SXT_CHECK(i + 1 < arguments.size(), Usage, name, " needs a value: ", name, "=...");
      overrides.push_back(name.substr(2) + "=" + arguments[++i]);
    }
  }
  arguments = std::move(rest);
  return overrides;
}

// `sextant` alone and `sextant help COMMAND` are --help. An unknown command stays one.
void ask_for_help(std::vector<std::string>& arguments, const std::vector<Command>& commands) {
  const bool asks = !arguments.empty() && arguments[0] == "help";
  if (asks) arguments.erase(arguments.begin());
  const auto is_known = [&](const std::string& word) {
    return word.starts_with("-") || std::ranges::any_of(commands, [&](const Command& command) {
             return command.name == word;
           });
  };
  if (arguments.empty() || (asks && is_known(arguments[0]))) arguments.push_back("--help");
}

// Without their dashes, so that two short ones are not alike for these.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

std::vector<std::string> argument_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) names.push_back(option->get_name(/*positional=*/true));
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

// The innermost command that the arguments reached; `path` becomes how it is called.
const CLI::App& reached(const CLI::App& app, std::string& path) {
  path += (path.empty() ? "" : " ") + app.get_name();
  const std::vector<CLI::App*> subs = app.get_subcommands();
  return subs.empty() ? app : reached(*subs.front(), path);
}

// What is wrong with arguments that nothing took; the first one is meant.
std::string leftover_error(const CLI::App& at, const std::vector<std::string>& leftovers,
                           Accepts accepts) {
  const std::vector<std::string> commands = command_names(at);
  if (!leftovers.front().starts_with("-"))
    return commands.empty() ? concat("unexpected argument '", leftovers.front(), "'")
                            : concat("unknown command '", leftovers.front(), "'",
                                     did_you_mean(leftovers.front(), commands),
                                     " (there are: ", join(commands, ", "), ")");
  const std::string name = leftovers.front().substr(0, leftovers.front().find('='));
  const std::string word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  const std::string unknown = concat("unknown option ", name);
  const std::vector<std::string> own = option_names(at);
  if (const std::string option = option_meant_by(word, own); !option.empty())
    return concat(unknown, ", did you mean '--", option, "'?");
  if (const std::string argument = argument_meant_by(word, argument_names(at)); !argument.empty())
    return concat(unknown, "; ", argument, " is given without an option");
  const std::string key =
      accepts == Accepts::Overrides && name.starts_with("--") ? key_meant_by(word) : "";
  if (!key.empty()) return concat(unknown, ", did you mean '--", key, "='?");
  const std::optional<std::string> near = nearest_name(word, own);
  return concat(unknown, near ? concat(", did you mean '--", *near, "'?") : "");
}

// Whether the command of this path, "sextant bench step", takes settings.
Accepts accepts_of(const std::vector<Command>& commands, const std::string& path) {
  const std::vector<Command>* level = &commands;
  Accepts accepts = Accepts::OptionsOnly;
  for (const std::string& word : split(path, ' '))
    for (const Command& command : *level)
      if (command.name == word) {
        accepts = command.accepts;
        level = &command.subcommands;
        break;
      }
  return accepts;
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        const std::vector<Command>& commands) {
  std::string path;
  const CLI::App& at = reached(app, path);
  const std::string see = " (see " + path + " --help)";
  const std::vector<std::string> leftovers = app.remaining(/*recurse=*/true);
  if (!leftovers.empty()) return leftover_error(at, leftovers, accepts_of(commands, path)) + see;
  const std::vector<std::string> subcommands = command_names(at);
  if (!subcommands.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return concat("a command is missing; there are: ", join(subcommands, ", "), see);
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    text = text.substr(0, text.find(':')) + " needs a value";
  return text + see;
}

int parse_and_run(std::vector<std::string> arguments, Globals& globals, std::optional<Log>& log,
                  std::string& after_error, std::function<int64_t()> heap_allocations) {
  const std::vector<Command> commands = all_commands();
  CLI::App app("Trains large language models and predicts memory, time and traffic beforehand.",
               "sextant");
  Chosen chosen;
  app.formatter(std::make_shared<HelpText>());  // commands take it over
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  add_globals(app, globals);
  for (const Command& command : commands) add_command(app, command, globals, chosen);
  // Last: commands take over what is set before them.
  app.footer("Begin with `sextant demo`, then `sextant train configs/tiny.toml`.");
  if (const auto has =
          [&](const char* word) { return std::ranges::find(arguments, word) != arguments.end(); };
      has("--version") && has("--json")) {
    print_json(version_json());
    return 0;
  }
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ask_for_help(arguments, commands);
  const std::vector<std::string> overrides = take_overrides(arguments);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream out;
    const int code = app.exit(success, out, out);
    print(out.str());
    return code;
  } catch (const CLI::ParseError& error) {
    SXT_FAIL(Usage, usage_error(app, error, commands));
  }
  const LogLevel level = globals.quiet     ? LogLevel::Quiet
                         : globals.verbose ? LogLevel::Verbose
                                           : LogLevel::Normal;
  const Color color = globals.color == "always"  ? Color::Always
                      : globals.color == "never" ? Color::Never
                                                 : Color::Auto;
  log.emplace(level, color);
  SXT_CHECK(overrides.empty() || chosen.command->accepts == Accepts::Overrides, Usage, "--",
            overrides.empty() ? "" : overrides[0], ": ", chosen.command->name,
            " takes no settings");
  DiskStorage storage;
  const SystemClock clock;
  Context context{storage,
                  clock,
                  *log,
                  watch_signals(chosen.command->stops,
                                level == LogLevel::Quiet ? "" : chosen.command->acknowledgement),
                  after_error,
                  globals.json,
                  overrides,
                  words,
                  std::move(heap_allocations)};
  return chosen.command->run(context);
}

}  // namespace

int run(int argc, char** argv, std::function<int64_t()> heap_allocations) {
  Globals globals;
  std::optional<Log> log;
  int code = 0;
  std::string problem, after_error;
  try {
    code = parse_and_run(std::vector<std::string>(argv + 1, argv + argc), globals, log, after_error,
                         std::move(heap_allocations));
  } catch (const Error& error) {
    problem = error.what();
    code = exit_code(error.fault());
  } catch (const std::bad_alloc&) {
    problem = "out of memory";
    code = exit_code(Fault::Memory);
  } catch (const std::exception& error) {
    problem = std::string("internal error: ") + error.what();
    code = exit_code(Fault::Internal);
  }
  if (!problem.empty()) {
    if (!log) log.emplace(LogLevel::Normal, Color::Auto);
    std::replace(problem.begin(), problem.end(), '\n', ' ');  // one line, whatever a name holds
    log->error(problem);
    if (!after_error.empty()) log->explain(after_error);
  }
  return code;
}

}  // namespace sextant::cli
