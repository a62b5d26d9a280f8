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

// A schedule as it ran, each step beside its simulation with the times that its operations took in
// this very step: the speed of a machine moves from step to step. All figures are medians over the
// steps.
struct PipelineRow {
  std::string schedule;
  std::vector<Comparison> steps;

  double measured_s() const;
  double simulated_s() const;
  double ratio() const;  // measured over simulated
  double measured_bubble() const;
  double simulated_bubble() const;
  double bubble_points() const;  // 100 times the difference of the two
  double latency_s() const;
  // The least and the most work of a stage over their mean, forward and backward.
  std::pair<double, double> stage_work() const;
  bool has_other_order() const;  // than the schedule's, in some step
};

// What the pipeline of a configuration does in `steps` steps after one that is not counted: from
// the first start of an action to the last end, so without the optimizer and what else surrounds
// the pipeline. Ranks are threads of this process.
PipelineRow bench_pipeline(const Config& config, int steps, Storage& storage, const Clock& clock,
                           Log& log);

// Whether the rows come in the same order by measured as by simulated time. Two whose simulated
// times are within `tie` of each other (gpipe and 1f1b take the same) may come either way.
bool is_same_order(std::span<const PipelineRow> rows, double tie = 0.02);

}  // namespace sextant
