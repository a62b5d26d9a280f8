#include "sim/rates.h"

#include <algorithm>
#include <string_view>

namespace sextant {
namespace {

// Whether the operation reads one buffer and writes another.
bool is_copy(const Trace& trace, const TraceOp& op) {
  const auto operands = trace.operands_of(op);
  return std::ranges::any_of(operands, [&](const TraceOperand& operand) {
    return operand.begin != operands.front().begin;
  });
}

}  // namespace

double seconds_of(const Rates& rates, const Trace& trace, const TraceOp& op) {
  const TraceLane& lane = trace.lane_of(op);
  const double in_memory = static_cast<double>(op.read + op.written) / rates.memory;
  if (op.lane != Trace::kCompute && lane.kind == TraceLane::Kind::Compute && rates.host > 0)
    return rates.launch + static_cast<double>(op.read) / rates.host;
  if (lane.kind == TraceLane::Kind::Compute)
    return rates.launch + std::max(op.flops / rates.flops, in_memory);
  if (lane.kind == TraceLane::Kind::Receive) return 0;
  if (lane.ranks.size() == 1) return is_copy(trace, op) ? rates.launch + in_memory : 0;
  const double on_link =
      static_cast<double>(op.sent) * static_cast<double>(size_of(op.sent_as)) / rates.link;
  const int rounds = std::string_view(op.name) == "all_reduce" ? 2 : 1;
  return rounds * rates.latency + on_link;
}

}  // namespace sextant
