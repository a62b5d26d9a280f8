#include "trace/compare.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "trace/print.h"

namespace sextant {
namespace {

// The operations of each lane, and the index of each operation in its lane.
struct Lanes {
  explicit Lanes(const Trace& trace) : trace(trace), ops(trace.lanes.size()) {
    for (uint32_t i = 0; i < trace.ops.size(); ++i) {
      std::vector<uint32_t>& lane = ops[static_cast<size_t>(trace.ops[i].lane)];
      places.push_back(lane.size());
      lane.push_back(i);
    }
  }

  // The waits of an operation, in a form that does not depend on the order of lanes.
  std::vector<std::string> waits(const TraceOp& op) const {
    std::vector<std::string> out;
    for (const uint32_t wait : trace.waits_of(op))
      out.push_back(concat(trace.lane_of(trace.ops[wait]).name, " #", places[wait]));
    return out;
  }

  const Trace& trace;
  std::vector<std::vector<uint32_t>> ops;
  std::vector<size_t> places;
};

bool is_same(const Trace& a, const TraceOp& left, const Trace& b, const TraceOp& right) {
  return std::string_view(left.name) == right.name && left.scope.layer == right.scope.layer &&
         left.scope.micro == right.scope.micro &&
         std::string_view(left.scope.pass) == right.scope.pass && left.flops == right.flops &&
         left.read == right.read && left.written == right.written && left.sent == right.sent &&
         left.sent_as == right.sent_as && left.peer == right.peer &&
         std::ranges::equal(a.operands_of(left), b.operands_of(right));
}

std::string compare_lane(const Lanes& a, const std::vector<uint32_t>& left, const Lanes& b,
                         const std::vector<uint32_t>& right, const std::string& name) {
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const TraceOp &one = a.trace.ops[left[i]], &other = b.trace.ops[right[i]];
    if (!is_same(a.trace, one, b.trace, other))
      return concat(name, " #", i, ": ", to_string(a.trace, one), " against ",
                    to_string(b.trace, other));
    if (a.waits(one) != b.waits(other))
      return concat(name, " #", i, ": ", to_string(a.trace, one), " waits for other operations");
  }
  if (left.size() == right.size()) return "";
  return concat(name, ": ", left.size(), " operations against ", right.size());
}

}  // namespace

std::string to_string(const Trace& trace, const TraceOp& op) {
  std::string text = concat(trace.lane_of(op).name, " ", op.name);
  for (const TraceOperand& operand : trace.operands_of(op)) {
    text += concat(operand.is_written ? " -> " : " ", to_string(operand), " at ", operand.begin);
  }
  if (op.scope.layer >= 0 || op.scope.micro >= 0)
    text +=
        concat(" (layer ", op.scope.layer, ", micro ", op.scope.micro, ", ", op.scope.pass, ")");
  return text;
}

std::string first_difference(const Trace& a, const Trace& b) {
  const Lanes left(a), right(b);
  for (size_t lane = 0; lane < a.lanes.size(); ++lane) {
    const std::string& name = a.lanes[lane].name;
    const auto other = std::ranges::find(b.lanes, name, &TraceLane::name);
    if (other != b.lanes.end() && !(*other == a.lanes[lane]))
      return concat(name, ": of other ranks, or of another kind");
    static const std::vector<uint32_t> none;
    const std::vector<uint32_t>& ops =
        other == b.lanes.end() ? none : right.ops[static_cast<size_t>(other - b.lanes.begin())];
    const std::string text = compare_lane(left, left.ops[lane], right, ops, name);
    if (!text.empty()) return text;
  }
  for (size_t lane = 0; lane < b.lanes.size(); ++lane) {
    const std::string& name = b.lanes[lane].name;
    if (!right.ops[lane].empty() &&
        std::ranges::find(a.lanes, name, &TraceLane::name) == a.lanes.end())
      return concat(name, ": no operation against ", right.ops[lane].size());
  }
  const auto [one, two] = std::ranges::mismatch(a.memory, b.memory);
  if (one == a.memory.end() && two == b.memory.end()) return "";
  return concat("memory event ", one - a.memory.begin(), " of ", a.memory.size(), " and ",
                b.memory.size());
}

}  // namespace sextant
