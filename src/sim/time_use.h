#pragma once
#include <cstddef>
#include <vector>

#include "base/span_log.h"
#include "sim/trace_time.h"

namespace sextant {

// How a rank spent its time over operations first ... last - 1.
struct TimeUse {
  double end = 0;            // of the last operation
  double compute = 0;        // compute time
  double exposed = 0;        // exposed communication: compute waits while it runs
  double waiting = 0;        // compute waits for communication that has not started: a peer is late
  std::vector<double> busy;  // by lane
};
TimeUse time_use(const Trace& trace, const std::vector<OpTimes>& times, size_t first, size_t last);

// These operations for a Chrome trace, by lane; `origin` is time 0.
std::vector<Span> timed_spans(const RankTrace& rank, const std::vector<OpTimes>& times,
                              size_t first, size_t last, double origin);

}  // namespace sextant
