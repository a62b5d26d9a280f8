#pragma once
#include "tensor/arena.h"

namespace sextant {

// While it lives, operations in this arena are not recorded: what a check reads is no part of a
// step.
class Unrecorded {
 public:
  explicit Unrecorded(Arena& arena) : arena_(arena), recorder_(arena.recorder()) {
    arena_.set_recorder(nullptr);
  }
  ~Unrecorded() { arena_.set_recorder(recorder_); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  Arena& arena_;
  TraceRecorder* recorder_;
};

}  // namespace sextant
