#pragma once
#include <cstddef>
#include <string>

#include "trace/trace.h"

namespace sextant {

// Writes the trace of one rank, while it issues operations. Used by the rank's own thread.
class TraceRecorder {
 public:
  // Operations that follow belong to this.
  void set_scope(const TraceScope& scope) { scope_ = scope; }
  const TraceScope& scope() const { return scope_; }

  // The lane of this name, made when it is new.
  int lane(const TraceLane& lane);

  // An operation is begun, given its operands, and ended with what it costs. One on the compute
  // lane waits for whatever wait_for named since the last one; one on another lane for all that was
  // issued on the compute lane so far, and for what else it is told.
  void begin(const char* name, int lane);
  void operand(const TraceOperand& operand);
  void wait_of_this(uint32_t op) { trace_.wait_list.push_back(op); }
  TraceOp& end();  // the operation, whose costs may be filled in until the next begin
  // Place of the last operation that was ended.
  uint32_t last() const { return static_cast<uint32_t>(trace_.ops.size()) - 1; }

  // What is issued on the compute lane from here on runs after this operation.
  void wait_for(uint32_t op);

  void memory(const TraceMemory& event) {
    trace_.memory.push_back(event);
    trace_.memory.back().at = static_cast<uint32_t>(trace_.ops.size());
  }

  const Trace& trace() const { return trace_; }
  Trace take();

 private:
  Trace trace_;
  TraceScope scope_;
  TraceOp op_;
  std::vector<uint32_t> awaited_;  // of the next operation on the compute lane
  int64_t last_compute_ = -1;
};

// While it lives, what is recorded belongs to a scope. Without a recorder it does nothing.
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
