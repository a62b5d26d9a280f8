#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "parallel/param.h"

namespace sextant {

// The operands of a linear layer in fp8, each with a history of its own; of experts, each expert's.
enum class OperandKind { Input, Weight, Gradient };
inline constexpr int64_t kOperandKinds = 3;

// A layer's history in checkpoints is "optim.fp8_amax.<weight>": other runs ignore it, and a run
// with delayed scaling may go on without it.
inline constexpr std::string_view kAmaxHistory = "optim.fp8_amax.";

// Delayed scaling of a rank's linear layers: for each of the three operands of a layer or expert,
// the largest absolute values of the last steps, and the value that operands are quantised with in
// this one. Before the first step nothing is known: then operands have the scale of their own
// largest value, agreed over AmaxRanks.
class DelayedScales {
 public:
  DelayedScales() = default;  // of no layer
  // Histories of zeros for the linear layers among `params`, whose `linear` it counts.
  DelayedScales(Stream& stream, std::span<Param> params, const Fp8Scaling& scaling);

  bool is_used() const { return static_cast<bool>(state_); }
  // Whether the history is empty: nothing was found in a step before.
  bool is_first() const { return is_first_; }

  // Forgets what was found since the last end of a step.
  void begin(Stream& stream);
  // amax: [weight.own_scales(), 1], the largest values of an operand of `weight`'s layer or of its
  // experts on this rank; from here on those that it is quantised with, unless is_first(). An
  // expert whose history has no token yet keeps its own.
  void take(Stream& stream, Tensor& amax, const Param& weight, OperandKind kind) const;
  // The two that take() reads and writes for one of its values, each [1, 1]: where quantising finds
  // the largest value too.
  Tensor used(const Param& weight, OperandKind kind, int64_t scale = 0) const;
  Tensor found(const Param& weight, OperandKind kind, int64_t scale = 0) const;
  // The end of a step: the ranks of these groups agree on what was found, and the histories go on.
  void finish(Stream& stream, std::span<Communicator* const> groups, bool keeps_own = false);

  // For checkpoints: [kinds * scales, 1 + history] for each linear layer.
  std::vector<NamedTensor> state() const;
  // After the state was filled from outside. Waits for the device.
  void was_filled(Stream& stream);

 private:
  int64_t row_of(const Param& weight, OperandKind kind, int64_t scale) const;

  Fp8Scaling scaling_;
  struct Layer {
    std::string weight;
    Range rows;  // of the state: (kind, scale)
  };
  std::vector<Layer> layers_;
  Tensor state_;  // [rows, 1 + history], see update_delayed_amax
  Tensor found_;  // [rows]
  bool is_first_ = true;
};

}  // namespace sextant
