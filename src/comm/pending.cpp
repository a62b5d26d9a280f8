#include <utility>

#include "comm/communicator.h"

namespace sextant {

Pending::Pending(Pending&& other) noexcept {
  *this = std::move(other);
}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  try {
    wait();
  } catch (...) {  // as in the destructor
  }
  communicator_ = std::exchange(other.communicator_, nullptr);
  call_ = other.call_;
  ticket_ = other.ticket_;
  in_ = std::exchange(other.in_, Tensor());
  out_ = std::exchange(other.out_, Tensor());
  // An Access stays where it was made: the new place opens its own before the old one closes.
  stream_ = std::exchange(other.stream_, nullptr);
  if (stream_ != nullptr) access_.emplace(*stream_);
  other.access_.reset();
  return *this;
}

Pending::~Pending() {
  try {
    wait();
  } catch (...) {  // whoever wanted to know would have waited
  }
}

void Pending::let_go() {
  access_.reset();
  stream_ = nullptr;
  in_ = Tensor();
  out_ = Tensor();
}

void Pending::wait() {
  if (communicator_ == nullptr) return;
  Communicator& communicator = *std::exchange(communicator_, nullptr);
  try {
    communicator.wait_for(call_, ticket_);
  } catch (...) {
    let_go();
    throw;
  }
  let_go();
}

}  // namespace sextant
