#pragma once
#include <utility>

#include "sim/trace_time.h"

namespace sextant {

// A recorded trace with the seconds of its operations.
inline RankTrace cost_trace(int rank, Trace trace, const SecondsOf& seconds_of) {
  RankTrace out{rank, std::move(trace), {}};
  for (const TraceOp& op : out.trace.ops) out.seconds.push_back(seconds_of(out.trace, op));
  return out;
}

}  // namespace sextant
