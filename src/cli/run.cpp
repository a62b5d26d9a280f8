// The only file that sees CLI11: builds a parser from the description of the commands.
#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/version.h"

namespace sextant::cli {
namespace {

struct Globals {
  bool quiet = false, verbose = false, json = false;
  std::string color = "auto";
};

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(
      [&](auto* target) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(target), bool*>)
          return app.add_flag(option.names, *target, option.help);
        else
          return app.add_option(option.names, *target, option.help);
      },
      option.target);
  if (option.need == Option::Need::Required) added->required();
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
}

// Runs what was chosen; the callback only remembers it, so that errors of parsing come first.
struct Chosen {
  const Command* command = nullptr;
};

void add_command(CLI::App& parent, const Command& command, Globals& globals, Chosen& chosen) {
  CLI::App* app = parent.add_subcommand(command.name, command.help);
  app->add_flag("--json", globals.json, "One JSON document on standard output");
  app->add_flag("-q,--quiet", globals.quiet, "Only errors");
  app->add_flag("-v,--verbose", globals.verbose, "More detail");
  app->add_option("--color", globals.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  for (const Option& option : command.options) add_option(*app, option);
  if (command.accepts == Accepts::Overrides)
    app->footer(
        "Any setting can be given as --section.key=value; `sextant config keys` lists them.");
  for (const Command& sub : command.subcommands) add_command(*app, sub, globals, chosen);
  if (!command.subcommands.empty()) app->require_subcommand(1);
  if (command.run) app->callback([&chosen, &command] { chosen.command = &command; });
}

// --section.key=value and --section.key value; everything else stays for the parser.
std::vector<std::string> take_overrides(std::vector<std::string>& arguments) {
  std::vector<std::string> overrides, rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (!name.starts_with("--") || name.find('.') == std::string::npos) {
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

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

// The innermost command that the arguments reached.
const CLI::App& reached(const CLI::App& app) {
  const std::vector<CLI::App*> subs = app.get_subcommands();
  return subs.empty() ? app : reached(*subs.front());
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        const std::vector<std::string>& arguments) {
  const CLI::App& at = reached(app);
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    const std::vector<std::string> options = option_names(at);
    if (name.starts_with("--") && std::find(options.begin(), options.end(), name) == options.end())
      return concat("unknown option ", name, did_you_mean(name, options));
  }
  const std::vector<std::string> commands = command_names(at);
  if (!commands.empty()) {
    for (const std::string& argument : arguments)
      if (!argument.starts_with("-") && argument != at.get_name() &&
          std::find(commands.begin(), commands.end(), argument) == commands.end())
        return concat("unknown command '", argument, "'", did_you_mean(argument, commands),
                      " (there are: ", join(commands, ", "), ")");
    return concat("a command is missing; there are: ", join(commands, ", "));
  }
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

int parse_and_run(std::vector<std::string> arguments, Globals& globals, std::optional<Log>& log) {
  const std::vector<Command> commands = all_commands();
  CLI::App app("Sextant trains large language models and says beforehand what it will cost.",
               "sextant");
  Chosen chosen;
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  for (const Command& command : commands) add_command(app, command, globals, chosen);
  const std::vector<std::string> overrides = take_overrides(arguments);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    SXT_FAIL(Usage, usage_error(app, error, arguments), "; see sextant --help");
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
  Context context{storage, clock, *log, watch_signals(), globals.json, overrides};
  return chosen.command->run(context);
}

}  // namespace

int run(int argc, char** argv) {
  Globals globals;
  std::optional<Log> log;
  int code = 0;
  std::string problem;
  try {
    code = parse_and_run(std::vector<std::string>(argv + 1, argv + argc), globals, log);
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
    log->error(problem);
  }
  return code;
}

}  // namespace sextant::cli
