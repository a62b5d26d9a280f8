#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"

namespace sextant::cli {

// What every command is handed.
struct Context {
  Storage& storage;
  const Clock& clock;
  Log& log;
  const std::atomic<bool>& stop;       // set by SIGTERM or the first Ctrl-C
  std::string& after_error;            // lines that explain an error, shown after it
  bool json = false;                   // --json
  std::vector<std::string> overrides;  // --section.key=value, as "section.key=value"
  std::vector<std::string> words;      // this program and all its arguments, to be run again
  // Calls of operator new so far; empty in a program that does not count them.
  std::function<int64_t()> heap_allocations;
};

// One option or positional argument of a command; the target holds the default.
struct Option {
  std::string names;  // "--out", "-n,--ranks", or "run.toml" for a positional argument
  std::string help;
  std::variant<std::string*, int64_t*, double*, bool*, std::vector<std::string>*> target;
  enum class Need { Optional, Required } need = Need::Optional;
  std::vector<std::string> choices = {};                  // accepted values; empty means any
  int64_t largest = std::numeric_limits<int32_t>::max();  // of a whole number; the least is 0
  std::string alone = {};  // value of a text that is given as --name without one, not --name=value
  // For completion, where it is neither one of `choices` nor a file: values that begin like `word`.
  std::function<std::vector<std::string>(const std::string& word)> values = {};
};

enum class Accepts { OptionsOnly, Overrides };  // Overrides: also --section.key=value
enum class Stops { AtOnce, WhenReady };  // what a signal does; WhenReady: it looks at Context::stop

// A command as data: the parser, --help and shell completion read the same description.
struct Command {
  std::string name;
  std::string help;  // one line
  std::vector<Option> options = {};
  std::function<int(Context&)> run = {};  // returns the exit code; empty: a subcommand must follow
  Accepts accepts = Accepts::OptionsOnly;
  Stops stops = Stops::AtOnce;
  std::vector<Command> subcommands = {};
  const char* acknowledgement = "";  // WhenReady: said at the first Ctrl-C, a literal
};

// All commands, in the order of --help. Each lives in a file of its name.
std::vector<Command> all_commands();
Command plan_command();
Command simulate_command();
Command train_command();
Command verify_command();
Command eval_command();
Command generate_command();
Command data_command();
Command checkpoint_command();
Command import_command();
Command export_command();
Command bench_command();
Command demo_command();
Command doctor_command();
Command config_command();
Command completion_command();

// Parses and runs; prints errors; returns the exit code of the contract. `heap_allocations`: see
// Context.
int run(int argc, char** argv, std::function<int64_t()> heap_allocations = {});

}  // namespace sextant::cli
