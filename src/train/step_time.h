#pragma once
#include <vector>

#include "sim/machine.h"
#include "sim/time_use.h"
#include "sim/trace_time.h"
#include "train/preflight.h"

namespace sextant {

// A rank of a simulated step, and how many ranks, itself included, do the same at the same time.
struct TimedRank {
  int rank = 0, count = 1;
  TimeUse use;                 // of the step
  RankTrace trace;             // empty if the step is extrapolated, as are `times`
  std::vector<OpTimes> times;  // of its operations
  size_t first = 0, last = 0;  // operations of the step, `last` excluded
};

// A steady-state training step, from the traces of its ranks.
struct StepTime {
  double seconds = 0;            // from the end of one step to the end of the next
  double begin = 0;              // end of the previous step, in the ranks' time
  std::vector<TimedRank> ranks;  // one per class
  // Micro-batches of the two shorter steps that were timed in place of this one; none if it was
  // timed itself.
  std::vector<int64_t> extrapolated_from = {};
};

// Traces two steps of one rank per class on a phantom device and times them (time_traces). Ranks
// are of one class when they have the same pipeline rank and all ranks of their pipelines are of
// the same kinds: always for tensor parallel, context parallel and replica ranks, and for shards of
// equal sizes. With expert parallel and shards of different sizes every rank is traced. `cores`: on
// which all ranks run; by default each has a device of its own.
//
// Where the traces would exceed `most_bytes` (0: as trace_budget says), two steps with fewer
// micro-batches are timed: beyond a few per stage, each pipeline's worth of micro-batches adds the
// same time. A schedule from a file has one number of micro-batches, so there it is Error(Config).
StepTime time_step(const Config& config, const Preflight& flight, const SecondsOf& seconds_of,
                   const SharedCores& cores = {}, int64_t most_bytes = 0);

// On the CPU a rank's own threads copy to and from the host's memory in the order of issue, so what
// offload does stands in the queue of the compute. time_step does this for runs on the CPU.
void queue_copies_with_compute(Trace& trace);

// time_step on a machine whose cores the ranks share.
struct MachineStep {
  StepTime time;
  std::vector<std::string> assumed;  // what the machine's costs lack, and what was taken instead
};
MachineStep time_on_machine(const Config& config, const Preflight& flight, const Machine& machine);

// Its operations for a Chrome trace, from its start. Error(Config) if it is extrapolated.
std::vector<Span> step_spans(const StepTime& step);

}  // namespace sextant
