#pragma once
#include <array>
#include <span>
#include <vector>

#include "model/micro.h"
#include "parallel/activation.h"
#include "parallel/param.h"
#include "tensor/stream.h"

namespace sextant {

// What one layer keeps for one micro-batch between its three halves. Each layer names its slots; a
// layer has at most this many, so keeping one never allocates.
class Saved {
 public:
  static constexpr size_t kSlots = 11;

  template <class Slot>
  Tensor& operator[](Slot slot) {
    return slots_[static_cast<size_t>(slot)];
  }
  void clear() { slots_.fill(Tensor()); }

 private:
  std::array<Tensor, kSlots> slots_;
};

// A piece of the network in three halves, so that a schedule may run them at different times:
//   forward          y from x, keeping in `saved` what the others need
//   backward_input   dx from dy; then `saved` holds only what backward_weight needs
//   backward_weight  adds to the gradients of params(); then `saved` is empty
// Norm weights are the exception: cheap and needed on the way, their gradients are ready after
// backward_input already.
// Activations are [tokens, hidden]. All memory comes from the stream's arena.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::vector<Param*> params() = 0;
  virtual Tensor forward(Stream& stream, const Micro& micro, const Tensor& x, Saved& saved) = 0;
  virtual Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                                Saved& saved) = 0;
  virtual void backward_weight(Stream& stream, const Micro& micro, Saved& saved) = 0;
};

}  // namespace sextant
