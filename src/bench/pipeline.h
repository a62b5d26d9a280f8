#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "config/config.h"
#include "sim/compare.h"

namespace sextant {

// A measured schedule, each step next to its simulation with the action times of that very step,
// since machine speed varies from step to step. All figures are medians over the steps.
struct PipelineRow {
  std::string schedule;
  std::vector<Comparison> steps;

  double measured_s() const;
  double simulated_s() const;
  double ratio() const;  // measured / simulated
  double measured_bubble() const;
  double simulated_bubble() const;
  double bubble_points() const;  // difference in percentage points
  double latency_s() const;
  // Least and most work of a stage relative to the mean, forward and backward.
  std::pair<double, double> stage_work() const;
  bool has_other_order() const;  // some step deviates from the schedule's order
};

// Runs the pipeline of a configuration for `steps` steps after one warm-up step. Measures from the
// first start of an action to the last end, without the optimizer and other work outside the
// pipeline. Ranks are threads of this process.
PipelineRow bench_pipeline(const Config& config, int steps, Storage& storage, const Clock& clock,
                           Log& log);

// Whether measured and simulated times rank the rows equally. Rows whose simulated times are within
// `tie` of each other (gpipe and 1f1b take the same) may be in either order.
bool is_same_order(std::span<const PipelineRow> rows, double tie = 0.02);

}  // namespace sextant
