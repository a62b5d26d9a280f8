#pragma once
#include "cli/command.h"
#include "plan/search.h"

namespace sextant::cli {

// The commands below `plan`, each in a file of its name.
Command plan_evaluate_command();
Command plan_explain_command();
Command plan_hardware_command();

// "71.79", GiB that the dry run reserves, or "~70.5" in closed form.
std::string memory_text(const Plan& plan);

// plan --largest: the most parameters whose states fit, by ZeRO stage. Returns the exit code.
int print_largest(const std::string& cluster, Context& context);

// plan --elastic: the node counts that a layout can grow and shrink to.
int print_elastic(const std::string& cluster, const std::string& fixed, int64_t batch,
                  Context& context);
// plan --sweep: the best layout at each value of an axis, and a picture if `svg` is a path.
int print_sweep(const PlanRequest& request, const std::string& sweep, const std::string& svg,
                Context& context);

// plan --compare-axes: all ranks given to one axis at a time, with counted numbers.
int print_axes(const PlanRequest& request, Context& context);

// With a cluster of "COUNTxFILE.toml" whose file has the costs of a machine: the costed phantom
// trace of the best five plans, and their order by it.
void time_exactly(PlanResult& result, const PlanRequest& request, const std::string& cluster,
                  Context& context);

}  // namespace sextant::cli
