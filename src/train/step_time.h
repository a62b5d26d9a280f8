#pragma once
#include <vector>

#include "sim/time_use.h"
#include "sim/trace_time.h"
#include "train/preflight.h"

namespace sextant {

// A rank of a simulated step, and how many do the same at the same time, itself included.
struct TimedRank {
  int rank = 0, count = 1;
  TimeUse use;  // of the step
  RankTrace trace;
  std::vector<OpTimes> times;  // of its operations
  size_t first = 0, last = 0;  // those of the step, the last not included
};

// A training step in the middle of a run, as the traces of its ranks have it.
struct StepTime {
  double seconds = 0;            // from the end of one step to the end of the next
  double begin = 0;              // the end of the one, in the times of the ranks
  std::vector<TimedRank> ranks;  // one of each class
};

// Traces two steps of one rank of each class on a phantom device and times them (time_traces).
// Ranks are of one class when they lie at the same place of the pipeline and are, like all others
// of their pipelines, of the same kinds: those that share layers, sequences or replicas always, and
// those whose shards have equal sizes.
StepTime time_step(const Config& config, const Preflight& flight, const SecondsOf& seconds_of);

// Its operations for a Chrome trace, from its begin.
std::vector<Span> step_spans(const StepTime& step);

}  // namespace sextant
