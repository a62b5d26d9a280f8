#pragma once
#include <vector>

#include "base/span_log.h"
#include "trace/trace.h"

namespace sextant {

// A trace as a drawing takes it: the operations of a rank in the order in which they were issued,
// each one unit long, lane by lane. There are no times in a trace.
std::vector<Span> spans_of(const Trace& trace, int rank);

}  // namespace sextant
