#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/storage.h"
#include "cli/simulate_arguments.h"
#include "sim/rates.h"
#include "train/step_time.h"

namespace sextant::cli {

// A step at given rates.
struct TimedStep {
  Rates rates;
  std::optional<Machine> machine = {};    // in place of rates
  std::vector<std::string> assumed = {};  // of the machine
  bool is_measured = false;               // some of the rates, on this machine
  double peak_flops = 0;                  // of all ranks together, for MFU
  double mfu = 0;
  StepTime time;
};

// What `simulate run.toml` says of the run beside its schedule.
struct StepReport {
  Preflight flight;                    // memory, read off the phantom
  std::optional<TimedStep> step = {};  // not where times are given or compared
};

// A rank's share of what this machine does, where arguments do not say otherwise: FLOP/s of a
// matrix product, bytes per second of a copy, half of them for messages.
TimedStep time_run(const Config& config, const Preflight& flight,
                   const SimulateArguments& arguments, const Clock& clock);

// With the costs and the shared cores of the machine that --hardware describes.
TimedStep time_on(const Config& config, const Preflight& flight, const SimulateArguments& arguments,
                  Storage& storage);

std::string to_text(const StepReport& report);
void add_json(nlohmann::ordered_json& out, const StepReport& report);

}  // namespace sextant::cli
