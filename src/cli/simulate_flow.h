#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/clock.h"
#include "cli/simulate_arguments.h"
#include "plan/flow_step.h"

namespace sextant::cli {

// simulate run.toml --cluster … --flow: the step with all ranks and links.
struct FlowReport {
  FlowStepTime step;
  double planned = 0;  // seconds of the step by the planner
  double took = 0;     // seconds of this simulation
};
FlowReport simulate_flow_step(const Case& asked, double planned, const SimulateArguments& arguments,
                              const Clock& clock);
nlohmann::ordered_json to_json(const FlowReport& report);
std::string to_text(const FlowReport& report);

// --slow-rank and --slow-link without --flow.
void refuse_flow_options(const SimulateArguments& arguments);

}  // namespace sextant::cli
