#include "cli/measured_run.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/config_case.h"
#include "plan/run_table.h"
#include "train/step_time.h"

namespace sextant::cli {
namespace {

constexpr int64_t kMostSimulated = 400'000;
constexpr const char* kRowName = "run.csv";

}  // namespace

KnownHardware read_hardware(Storage& storage, const std::string& name) {
  KnownHardware out{name, find_hardware(storage, name)};
  if (!name.ends_with(".toml")) return out;
  const std::string text = read_text(storage, name);
  if (has_machine(text, name)) out.machine = parse_machine(text, name);
  return out;
}

PredictedStep predict_step(const Config& config, const Preflight& flight,
                           const KnownHardware& hardware, Log& log) {
  if (hardware.machine) {
    const MachineStep step = time_on_machine(config, flight, *hardware.machine);
    for (const std::string& text : step.assumed) log.detail(text);
    return {step.time.seconds, hardware.name};
  }
  const Cluster cluster{hardware.hardware, world_size(config.parallel)};
  const Case asked = case_of(config, cluster);
  for (const std::string& text : hardware.hardware.assumed) log.detail(text);
  for (const std::string& text : not_priced(config)) log.info("not priced: " + text);
  return {simulated_step_time(asked, Constants{}, kMostSimulated).total(), hardware.hardware.name};
}

void write_run_row(Storage& storage, const Config& config, const KnownHardware& hardware,
                   const ComparedStep& compared, Log& log) {
  MeasuredRun run;
  run.config = config;
  run.id = config.run.out;
  run.gpu = hardware.name.ends_with(".toml") ? hardware.name : hardware.hardware.name;
  run.gpus_per_node = hardware.hardware.node_gpus;
  run.step_s = compared.measured_s;
  run.mem_gib = static_cast<double>(compared.measured_peak) / kGiB;
  const std::string path = join_path(config.run.out, kRowName);
  replace_file(storage, path, run_table_text(run));
  log.detail("wrote " + path + ", which sextant plan evaluate --runs reads");
}

nlohmann::ordered_json compared_json(const ComparedStep& compared) {
  return {{"predicted_s", compared.predicted.seconds},
          {"measured_s", compared.measured_s},
          {"error", compared.error()},
          {"source", compared.predicted.source},
          {"steps", compared.steps},
          {"predicted_peak", compared.predicted_peak},
          {"measured_peak", compared.measured_peak}};
}

}  // namespace sextant::cli
