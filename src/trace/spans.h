#pragma once
#include <vector>

#include "base/span_log.h"
#include "trace/trace.h"

namespace sextant {

// An operation as a drawing takes it: with its layer, micro-batch and pass, on the line of its
// lane.
Span span_of(const Trace& trace, const TraceOp& op, int rank, double begin, double end);

// A trace as a drawing takes it: the operations of a rank in the order in which they were issued,
// each one unit long, lane by lane. There are no times in a trace.
std::vector<Span> spans_of(const Trace& trace, int rank);

}  // namespace sextant
