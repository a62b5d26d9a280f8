#pragma once
#include "cli/command.h"
#include "cli/simulate_arguments.h"

namespace sextant::cli {

// simulate run.toml --cluster: the whole run, its step priced by the planner. Returns the exit
// code.
int simulate_on_cluster(const SimulateArguments& arguments, Context& context);

// Error(Usage) for an option that needs --cluster.
void refuse_cluster_options(const SimulateArguments& arguments);

}  // namespace sextant::cli
