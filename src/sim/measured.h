#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/span_log.h"
#include "schedule/schedule.h"
#include "sim/simulate.h"
#include "sim/timeline.h"

namespace sextant {

// What a run did, from the spans of its trace: the executor records one per action on lane 0 of its
// rank, named by describe (schedule/print.h).

// The global ranks of one pipeline: its rank r is global rank first + r * apart, since pp is the
// outermost axis of a mesh.
struct PipelineRanks {
  int first = 0, apart = 1;
};

// The steps that all ranks of a pipeline finished, one timeline each. Forwards without a backward
// are evaluations and are skipped. The two actions of an overlapped block share start and end.
// Error(Data) that begins with `what`, the trace's name, when a rank is missing, ran actions that
// the schedule does not have, or no step was finished.
std::vector<Timeline> measured_steps(std::span<const Span> spans, const Schedule& schedule,
                                     const PipelineRanks& ranks, const std::string& what);

// Measured times of a run's actions, in the unit of the timelines.
struct MeasuredTimes {
  // Per stage: the mean over the micros of a step, then the median over steps, so that one slow
  // step does not count. A backward that is never split is divided equally into input and weight
  // gradient. `overlap`: time of a joined block, if any. `latency`: time from the end of an action
  // until an idle rank that waits for its output starts.
  Costs costs;
  // Median gap between two actions of a rank that does not wait: overhead of the executor. Not part
  // of the costs.
  double between = 0;
};
MeasuredTimes measured_times(const Schedule& schedule, std::span<const Timeline> steps);

double median(std::vector<double> values);  // mean of the middle two for an even number; 0 for none

}  // namespace sextant
