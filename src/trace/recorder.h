#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "base/budget.h"
#include "trace/trace.h"

namespace sextant {

// Records the trace of one rank while it issues operations. Used by the rank's own thread.
class TraceRecorder {
 public:
  // The scope of all operations from now on.
  void set_scope(const TraceScope& scope) { scope_ = scope; }
  const TraceScope& scope() const { return scope_; }

  // The index of the lane with this name, added if it is new.
  int lane(const TraceLane& lane);

  // Records an operation: begin, operands, end, costs. On the compute lane it waits for all
  // operations passed to wait_for since the previous one. On another lane it waits for all compute
  // operations issued so far, and for those passed to wait_of_this.
  void begin(const char* name, int lane);
  void operand(const TraceOperand& operand);
  void wait_of_this(uint32_t op) { trace_.wait_list.push_back(op); }
  TraceOp& end();  // the operation; its costs can be set until the next begin
  // Index of the last ended operation.
  uint32_t last() const { return static_cast<uint32_t>(trace_.ops.size()) - 1; }

  // Later operations on the compute lane run after this operation.
  void wait_for(uint32_t op);

  void memory(const TraceMemory& event) {
    if (on_operation_) return;
    trace_.memory.push_back(event);
    trace_.memory.back().at = static_cast<uint32_t>(trace_.ops.size());
  }

  // Calls `f` with each operation when it is complete and then forgets its operands; memory events
  // are not kept either. For readers of whole steps, of which operands are the largest part.
  using OnOperation = std::function<void(const Trace& trace, const TraceOp& op)>;
  void forget_operands(OnOperation f) { on_operation_ = std::move(f); }

  // The trace's bytes are taken from this budget; null: no limit.
  void set_budget(Budget* budget) { budget_ = budget; }

  const Trace& trace() const { return trace_; }
  Trace take();

 private:
  void complete();
  void take_bytes();

  Trace trace_;
  TraceScope scope_;
  TraceOp op_;
  std::vector<uint32_t> awaited_;  // waits of the next operation on the compute lane
  int64_t last_compute_ = -1;
  OnOperation on_operation_;
  size_t completed_ = 0;  // operations passed to it
  Budget* budget_ = nullptr;
  int64_t taken_ = 0;  // bytes
};

// Sets the recorder's scope during its lifetime; no-op without a recorder.
class RecordedScope {
 public:
  RecordedScope(TraceRecorder* recorder, const TraceScope& scope) : recorder_(recorder) {
    if (recorder_ == nullptr) return;
    before_ = recorder_->scope();
    recorder_->set_scope(scope);
  }
  ~RecordedScope() {
    if (recorder_ != nullptr) recorder_->set_scope(before_);
  }
  RecordedScope(const RecordedScope&) = delete;
  RecordedScope& operator=(const RecordedScope&) = delete;

 private:
  TraceRecorder* recorder_;
  TraceScope before_;
};

}  // namespace sextant
