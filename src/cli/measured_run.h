#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/storage.h"
#include "plan/hardware.h"
#include "sim/machine.h"
#include "train/preflight.h"
#include "train/step_comparison.h"

namespace sextant::cli {

// A GPU or hardware file of the command line: with measured costs of operations where the file has
// them, else as the planner knows it.
struct KnownHardware {
  std::string name;  // as given
  Hardware hardware;
  std::optional<Machine> machine = {};
};
KnownHardware read_hardware(Storage& storage, const std::string& name);

// The costed phantom trace on a measured machine, else the planner's simulated schedule.
PredictedStep predict_step(const Config& config, const Preflight& flight,
                           const KnownHardware& hardware, Log& log);

// run.csv in run.out: the run as a line of a table that `plan evaluate` reads.
void write_run_row(Storage& storage, const Config& config, const KnownHardware& hardware,
                   const ComparedStep& compared, Log& log);
nlohmann::ordered_json compared_json(const ComparedStep& compared);

}  // namespace sextant::cli
