#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/span_log.h"
#include "schedule/schedule.h"
#include "sim/simulate.h"
#include "sim/timeline.h"

namespace sextant {

// What a run did, from the spans of its trace: the executor leaves one for each action, named as
// describe (schedule/print.h) does, on lane 0 of its rank.

// The ranks of one pipeline among those of a run: rank r of it is rank first + r * apart there. The
// axis of the pipeline is the outermost of a mesh.
struct PipelineRanks {
  int first = 0, apart = 1;
};

// The steps that all ranks of a pipeline finished, one timeline each. Forwards without a backward
// are evaluations and passed over, wherever they lie. The two of a joined block that overlapped
// share start and end. Error(Data) that begins with `what`, the trace's name, when a rank is
// missing or did other actions than the schedule has, or no step was finished.
std::vector<Timeline> measured_steps(std::span<const Span> spans, const Schedule& schedule,
                                     const PipelineRanks& ranks, const std::string& what);

// What the operations of a run took, in the unit of the timelines.
struct MeasuredTimes {
  // Of a stage: the mean over its micros in each step, of those the median; so a slow step counts
  // nothing, and what is slow in every step counts. Where backward is never split, its halves are
  // given half of it each. `overlap` is the time of a joined block, where there are any. `latency`
  // likewise is the time from the end of an action until one on another rank that stood waiting for
  // its output began.
  Costs costs;
  // Median time between two actions of a rank when nothing had to be waited for: what the executor
  // itself takes. No part of the costs.
  double between = 0;
};
MeasuredTimes measured_times(const Schedule& schedule, std::span<const Timeline> steps);

double median(
    std::vector<double> values);  // of an even number the mean of the middle two; of none 0

}  // namespace sextant
