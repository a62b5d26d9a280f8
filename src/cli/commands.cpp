#include "cli/command.h"

namespace sextant::cli {

std::vector<Command> all_commands() {
  return {demo_command(),   plan_command(),   simulate_command(),   train_command(),
          verify_command(), eval_command(),   generate_command(),   data_command(),
          import_command(), export_command(), checkpoint_command(), bench_command(),
          doctor_command(), config_command(), completion_command()};
}

}  // namespace sextant::cli
