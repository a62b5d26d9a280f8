#pragma once
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "model/micro.h"
#include "parallel/activation.h"
#include "parallel/param.h"
#include "program/keep.h"
#include "tensor/stream.h"

namespace sextant {

// The residual stream between two layers: residual + update. The sum is left to the norm that comes
// next, which reads both anyway; it may then overwrite the update. An empty update means none.
//   residual, update: [tokens, hidden]
struct Hidden {
  Tensor residual, update = {};
};

// What one layer keeps for one micro-batch between its passes. Each layer names its slots; a layer
// has at most this many, so keeping one never allocates.
class Saved {
 public:
  static constexpr size_t kSlots = 11;

  template <class Slot>
  Tensor& operator[](Slot slot) {
    return slots_[static_cast<size_t>(slot)];
  }
  void clear() { slots_.fill(Tensor()); }
  template <class Slot>
  void clear_but(Slot slot) {
    Tensor kept = std::move((*this)[slot]);
    clear();
    (*this)[slot] = std::move(kept);
  }

 private:
  std::array<Tensor, kSlots> slots_;
};

// A piece of the network in passes that a schedule may run at different times:
//   forward          y from x, keeping in `saved` what the others need
//   backward_input   dx from dy; then `saved` holds only what backward_weight needs
//   backward_weight  adds to the gradients of params(); then `saved` is empty
// A layer that keeps less than all (Keep) lets go of the rest after forward and makes it again
// before backward_input, with the same bits:
//   forget           leaves in `saved` what `keep` says
//   recompute        what forward had left there, from that; from x, where nothing was kept
// Norm weights are the exception: cheap and needed on the way, their gradients are ready after
// backward_input already.
// All memory comes from the stream's arena.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::vector<Param*> params() = 0;
  virtual Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) = 0;
  virtual Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                                Saved& saved) = 0;
  virtual void backward_weight(Stream& stream, const Micro& micro, Saved& saved) = 0;

  virtual void forget(Keep keep, Saved& saved);
  // Gives y where a layer that keeps nothing may follow: for Keep::Input.
  virtual Hidden recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved);
};

}  // namespace sextant
