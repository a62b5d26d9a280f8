#include <utility>

#include "comm/communicator.h"
#include "tensor/gpu.h"
#include "tensor/operation_times.h"

namespace sextant {

Pending::Pending(Pending&& other) noexcept {
  *this = std::move(other);
}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  wait_ignoring_errors();
  communicator_ = std::exchange(other.communicator_, nullptr);
  state_.reset();
  if (other.state_) {
    // An Access cannot be moved: the new State opens its own before the old one is closed.
    const State& from = *other.state_;
    state_.emplace(*from.stream, from.call, from.in, from.out);
    state_->ticket = from.ticket;
    state_->op = from.op;
    other.state_.reset();
  }
  return *this;
}

void Pending::wait_ignoring_errors() noexcept {
  try {
    wait();
  } catch (...) {  // a caller that wants the error calls wait
  }
}

void Pending::wait() {
  if (communicator_ == nullptr) return;
  Communicator& communicator = *std::exchange(communicator_, nullptr);
  Stream& stream = *state_->stream;
  OperationTimes* times = nullptr;
  if (TraceRecorder* recorder = stream.recorder()) {
    recorder->wait_for(state_->op);
    if (stream.is_gpu()) times = stream.queue().times();
  }
  try {
    if (times != nullptr) times->begin_in(stream.queue());
    communicator.wait_for(state_->call, state_->ticket);
    if (times != nullptr) times->end_in(stream.queue(), state_->op);
  } catch (...) {
    state_.reset();
    throw;
  }
  state_.reset();
}

}  // namespace sextant
