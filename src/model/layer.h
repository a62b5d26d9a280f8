#pragma once
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "model/micro.h"
#include "parallel/activation.h"
#include "parallel/param.h"
#include "parallel/rows_in_flight.h"
#include "program/keep.h"
#include "program/rank_program.h"
#include "tensor/stream.h"

namespace sextant {

// The residual stream between two layers: residual + update. The next norm reads both anyway, so it
// computes the sum, and may overwrite the update. An empty update means none.
//   residual, update: [tokens, hidden]
struct Hidden {
  Tensor residual, update = {};
};

// Activations that one layer saves for one micro-batch between its passes. Each layer names its
// slots; their number is fixed, so saving never allocates slots.
class Saved {
 public:
  static constexpr size_t kSlots = 34;

  // Slot: an enum whose last value is Count.
  template <class Slot>
  Tensor& operator[](Slot slot) {
    static_assert(static_cast<size_t>(Slot::Count) <= kSlots);
    return slots_[static_cast<size_t>(slot)];
  }
  template <class Slot>
  const Tensor& operator[](Slot slot) const {
    return slots_[static_cast<size_t>(slot)];
  }
  // Sizes of slots that are known at run time only, on the host.
  std::vector<int64_t>& sizes() { return sizes_; }
  // Between two phases of a pass (LayerUse::phase).
  RowsInFlight& flight() { return flight_; }
  void clear() {
    slots_.fill(Tensor());
    sizes_.clear();  // which keeps its memory
  }
  template <class Slot>
  void clear_but(Slot slot) {
    Tensor kept = std::move((*this)[slot]);
    clear();
    (*this)[slot] = std::move(kept);
  }

 private:
  std::array<Tensor, kSlots> slots_;
  std::vector<int64_t> sizes_;
  RowsInFlight flight_;
};

// A layer in separate passes, which a schedule may run at different times:
//   forward          y from x; stores in `saved` what the other passes need
//   backward_input   input gradient: dx from dy; leaves in `saved` what backward_weight needs
//   backward_weight  weight gradient: adds to the gradients of params(); empties `saved`
// Norm weights are cheap: backward_input already computes their gradients. Activation recomputation
// (Keep) frees activations after forward and restores the same bits before backward_input:
//   discard_activations  leaves in `saved` what `keep` says
//   recompute            restores `saved` as forward left it, from that, or from x if nothing was
//                        kept
// A layer that cannot be recomputed (embedding, head) has neither: a call is Error(Internal).
// All memory comes from the stream's arena.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::vector<Param*> params() = 0;
  virtual Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) = 0;
  virtual Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                                Saved& saved) = 0;
  virtual void backward_weight(Stream& stream, const Micro& micro, Saved& saved) = 0;
  // Both, with the same bits. A layer may compute weight gradients while it waits for others.
  virtual Tensor backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved);

  // One phase of a pass, of a layer that exchanges rows of tokens; all phases are the whole pass,
  // with the same bits. Each phase of a forward or a recomputation gets what the one before it has
  // returned. Only the last one returns dx, and all get dy.
  virtual Hidden forward_phase(Stream& stream, const Micro& micro, Phase phase, Hidden x,
                               Saved& saved);
  virtual Hidden recompute_phase(Stream& stream, const Micro& micro, Phase phase, Keep keep,
                                 Hidden x, Saved& saved);
  virtual Tensor backward_phase(Stream& stream, const Micro& micro, Phase phase, Pass pass,
                                const Tensor& dy, Saved& saved);

  virtual void discard_activations(Keep keep, Saved& saved);
  // Returns y with Keep::Input, for a next layer that keeps nothing.
  virtual Hidden recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved);
};

}  // namespace sextant
