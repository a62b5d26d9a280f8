#pragma once
#include "cli/command.h"

namespace sextant::cli {

// The commands below `plan`, each in a file of its name.
Command plan_evaluate_command();
Command plan_explain_command();
Command plan_hardware_command();

// plan --largest: the most parameters whose states fit, by ZeRO stage. Returns the exit code.
int print_largest(const std::string& cluster, Context& context);

}  // namespace sextant::cli
