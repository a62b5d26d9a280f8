#pragma once
#include <functional>
#include <vector>

#include "trace/trace.h"

namespace sextant {

// A rank's trace with the seconds that each operation takes, once it and all others that take part
// in it can begin. Of a collective the member that needs longest decides, of a message the sender.
struct RankTrace {
  int rank = 0;  // of the world
  Trace trace;
  std::vector<double> seconds;  // of each of trace.ops
};

using SecondsOf = std::function<double(const Trace& trace, const TraceOp& op)>;
// Drops operands and memory events, which timing does not look at.
RankTrace cost_trace(int rank, Trace trace, const SecondsOf& seconds_of);

// The ranks of a program.
struct TracedRanks {
  std::vector<RankTrace> ranks;
  // By rank of the world: the place in `ranks` of the one that stands for it. Empty: `ranks` has
  // all of them, each for itself. Times are exact where a rank does the same as those that it
  // stands for, with the same peers up to who stands for them: by symmetry they do it at the same
  // time.
  std::vector<int> stand_ins = {};
};

struct OpTimes {
  double start = 0, end = 0;
};

// When each operation runs, by place in `ranks` and operation. Lanes are queues, waits order them.
// A collective starts when all members have come to it, a message when both ends have; calls of a
// group meet in the order in which its members make them, messages in that of their two ends.
// Nothing that runs slows anything else. O(operations, waits and members).
// Error(Internal) that names ranks and operations when they never meet, or make different calls.
std::vector<std::vector<OpTimes>> time_traces(const TracedRanks& traced);

}  // namespace sextant
