#pragma once
#include <vector>

#include "base/span_log.h"
#include "trace/op_times.h"
#include "trace/trace.h"

namespace sextant {

// An operation as a span for drawing: named with its layer, micro-batch and pass, on its lane.
Span span_of(const Trace& trace, const TraceOp& op, int rank, double begin, double end);

// The operations of a trace as spans for drawing, in the order issued, each one unit long, as a
// trace has no times.
std::vector<Span> spans_of(const Trace& trace, int rank);

// Of a trace with times on a GPU: the operations whose time is known, of kind "kernel", on lane
// kDeviceLane (compute) and those behind it, beside the lanes of the rank's threads.
std::vector<Span> device_spans_of(const Trace& trace, std::span<const OpTime> times, int rank);

}  // namespace sextant
