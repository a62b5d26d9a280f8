#pragma once
#include <functional>
#include <vector>

#include "base/span_log.h"
#include "trace/op_times.h"
#include "trace/trace.h"

namespace sextant {

// Operations as spans for drawing, in the order issued: on their lanes, named with layer,
// micro-batch and pass, with operands, FLOPs, bytes and what they wait for.

struct OpInterval {
  double begin = 0, end = 0;
};
// Operations first ... last - 1, at the times `when` gives. Waits for earlier ones are left out.
std::vector<Span> spans_of(const Trace& trace, int rank, size_t first, size_t last,
                           const std::function<OpInterval(size_t op)>& when);

// All operations, each one unit long, as a trace has no times.
std::vector<Span> spans_of(const Trace& trace, int rank);

// Of a trace with times on a GPU: the operations whose time is known, of kind "kernel", on lane
// kDeviceLane (compute) and those behind it, beside the lanes of the rank's threads.
std::vector<Span> device_spans_of(const Trace& trace, std::span<const OpTime> times, int rank);

}  // namespace sextant
