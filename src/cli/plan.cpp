#include "cli/plan_commands.h"

namespace sextant::cli {

Command plan_command() {
  return {.name = "plan",
          .help = "Predict step time and memory of layouts on a cluster",
          .subcommands = {plan_evaluate_command(), plan_hardware_command()}};
}

}  // namespace sextant::cli
