#pragma once
#include <functional>
#include <vector>

#include "trace/trace.h"

namespace sextant {

// A rank's trace with the seconds of each operation once all its participants can start. The
// slowest member decides for a collective, the sender for a message.
struct RankTrace {
  int rank = 0;  // global rank
  Trace trace;
  std::vector<double> seconds;  // per operation of trace.ops
};

using SecondsOf = std::function<double(const Trace& trace, const TraceOp& op)>;

// The cores on which all ranks run. Whatever runs at the same time shares them evenly: a rank's
// compute lane keeps `threads` cores busy, a collective one for each of its members, a message one.
struct SharedCores {
  int count = 0;    // 0: every rank has a device of its own
  int threads = 1;  // of a rank's compute lane
};

// The traced ranks of a run.
struct TracedRanks {
  std::vector<RankTrace> ranks;
  // By global rank: index in `ranks` of its representative. Empty: `ranks` has all ranks. Times are
  // exact when a rank does the same as its representative, with the same peers up to
  // representatives: by symmetry they do it at the same time.
  std::vector<int> stand_ins = {};
  // With shared cores the seconds of an operation are those at its full share of them.
  SharedCores cores = {};
};

struct OpTimes {
  double start = 0, end = 0;
};

// Start and end of each operation, by index in `ranks` and operation. Lanes are queues, waits order
// them. A collective starts when all members have reached it, a message when both ends have; calls
// of a group match in the order in which its members make them, messages in the order of their two
// ends. There is no contention but for shared cores. O(operations, waits and members).
// Error(Internal) that names ranks and operations on deadlock or mismatched calls.
std::vector<std::vector<OpTimes>> time_traces(const TracedRanks& traced);

}  // namespace sextant
