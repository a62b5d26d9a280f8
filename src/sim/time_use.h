#pragma once
#include <cstddef>
#include <vector>

#include "base/span_log.h"
#include "sim/trace_time.h"

namespace sextant {

// Where a rank's time went over operations first ... last - 1, after those before them.
struct TimeUse {
  double end = 0;            // of the last operation
  double compute = 0;        // the device computed
  double exposed = 0;        // it stood still while a message or collective that it needs ran
  double waiting = 0;        // it stood still before such a one could begin: others were not there
  std::vector<double> busy;  // by lane
};
TimeUse time_use(const Trace& trace, const std::vector<OpTimes>& times, size_t first, size_t last);

// Those operations for a Chrome trace, by their lanes; `origin` is time 0.
std::vector<Span> timed_spans(const RankTrace& rank, const std::vector<OpTimes>& times,
                              size_t first, size_t last, double origin);

}  // namespace sextant
