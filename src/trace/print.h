#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/trace.h"

namespace sextant {

std::string to_string(const TraceOperand& operand);    // "f32 [2, 4]"
std::string op_text(const Trace& trace, uint32_t op);  // "#12 all_gather shard"

// Operations first ... last - 1 as a table, one line each, then their sums by lane.
std::string trace_text(const Trace& trace, size_t first, size_t last);

}  // namespace sextant
