#pragma once
#include <string>

#include "trace/trace.h"

namespace sextant {

// One operation in a line: "compute #12 matmul f32 [64, 32] <- f32 [64, 16] f32 [32, 16] (layer 3,
// micro 0, forward)".
std::string to_string(const Trace& trace, const TraceOp& op);

// "" when both have the same memory events and, lane by lane, the same operations with the same
// operands, costs and waits; otherwise a text about the first difference.
std::string first_difference(const Trace& a, const Trace& b);

}  // namespace sextant
