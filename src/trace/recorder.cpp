#include "trace/recorder.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

constexpr size_t kCountedAtOnce = 256;  // operations; threads share a budget

}  // namespace

int TraceRecorder::lane(const TraceLane& lane) {
  const auto found = std::ranges::find(trace_.lanes, lane.name, &TraceLane::name);
  if (found != trace_.lanes.end()) return static_cast<int>(found - trace_.lanes.begin());
  trace_.lanes.push_back(lane);
  return static_cast<int>(trace_.lanes.size()) - 1;
}

void TraceRecorder::begin(const char* name, int lane) {
  complete();
  op_ = TraceOp{};
  op_.name = name;
  op_.lane = lane;
  op_.scope = scope_;
  op_.operands = static_cast<uint32_t>(trace_.operand_list.size());
  op_.waits = static_cast<uint32_t>(trace_.wait_list.size());
  if (lane == Trace::kCompute) {
    trace_.wait_list.insert(trace_.wait_list.end(), awaited_.begin(), awaited_.end());
    awaited_.clear();
  } else {
    // Includes waits of the compute lane that none of its operations has consumed yet.
    if (last_compute_ >= 0) trace_.wait_list.push_back(static_cast<uint32_t>(last_compute_));
    trace_.wait_list.insert(trace_.wait_list.end(), awaited_.begin(), awaited_.end());
  }
}

void TraceRecorder::operand(const TraceOperand& operand) {
  trace_.operand_list.push_back(operand);
}

TraceOp& TraceRecorder::end() {
  op_.operands_end = static_cast<uint32_t>(trace_.operand_list.size());
  op_.waits_end = static_cast<uint32_t>(trace_.wait_list.size());
  if (op_.lane == Trace::kCompute) last_compute_ = static_cast<int64_t>(trace_.ops.size());
  trace_.ops.push_back(op_);
  if (budget_ != nullptr && trace_.ops.size() % kCountedAtOnce == 0) take_bytes();
  return trace_.ops.back();
}

void TraceRecorder::take_bytes() {
  const size_t bytes =
      trace_.ops.size() * sizeof(TraceOp) + trace_.operand_list.size() * sizeof(TraceOperand) +
      trace_.wait_list.size() * sizeof(uint32_t) + trace_.memory.size() * sizeof(TraceMemory);
  const auto now = static_cast<int64_t>(bytes);
  budget_->take(now - std::exchange(taken_, now));
}

void TraceRecorder::wait_for(uint32_t op) {
  awaited_.push_back(op);
}

void TraceRecorder::complete() {
  if (!on_operation_ || completed_ == trace_.ops.size()) return;
  completed_ = trace_.ops.size();
  TraceOp& op = trace_.ops.back();
  on_operation_(trace_, op);
  op.operands = op.operands_end = 0;
  trace_.operand_list.clear();
}

Trace TraceRecorder::take() {
  complete();
  if (budget_ != nullptr) take_bytes();
  completed_ = 0;
  Trace out = std::exchange(trace_, Trace{});
  trace_.lanes = out.lanes;  // lanes keep their numbers
  awaited_.clear();
  last_compute_ = -1;
  taken_ = 0;
  return out;
}

}  // namespace sextant
