#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "config/config.h"
#include "sim/compare.h"

namespace sextant {

// A schedule as it ran, beside its simulation with the times that its operations took.
struct PipelineRow {
  std::string schedule;
  Comparison comparison;

  double measured_s() const { return comparison.measured.makespan; }
  double simulated_s() const { return comparison.simulated.makespan; }
  double ratio() const { return measured_s() / simulated_s(); }
  // In points: 100 times the difference of the fractions.
  double bubble_points() const {
    return 100 * (comparison.measured.bubble_fraction - comparison.simulated.bubble_fraction);
  }
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
