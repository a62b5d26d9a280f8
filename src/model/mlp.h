#pragma once
#include <optional>

#include "model/dropout.h"
#include "model/linear.h"
#include "model/norm.h"

namespace sextant {

struct MlpParts {
  Norm norm;
  Linear up;                             // [ffn, hidden]; gated: [2 * ffn, hidden], gate rows first
  Linear down;                           // [hidden, ffn]
  std::optional<Activation> activation;  // none: gated (SwiGLU)
  const TensorRanks* ranks;              // tensor parallel; each rank has a part of ffn
  Dropout dropout = {};
};

// x + dropout(down(gelu(up(norm(x))))), or x + dropout(down(silu(gate) * up)) when gated.
class Mlp final : public Layer {
 public:
  explicit Mlp(const MlpParts& parts);

  std::vector<Param*> params() override;
  Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) override;
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;
  void discard_activations(Keep keep, Saved& saved) override;
  // Returns no y: the next layer keeps its own x.
  Hidden recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved) override;

 private:
  enum class Slot {
    X,
    Mean,
    Inverse,
    Normed,
    NormedAmax,
    Wide,
    WideAmax,
    WideSums,
    Active,
    ActiveAmax,
    Dy,
    DyAmax,
    DySums,
    Count
  };
  static Norm::Slots norm_slots(Saved& saved) {
    return {saved[Slot::X], saved[Slot::Mean], saved[Slot::Inverse]};
  }
  static OperandSlots operand(Saved& saved, Slot values) {
    return {saved[values], saved[static_cast<Slot>(static_cast<int>(values) + 1)]};
  }
  static OperandSlots gradient(Saved& saved, Slot values) {
    OperandSlots out = operand(saved, values);
    out.sums = &saved[static_cast<Slot>(static_cast<int>(values) + 2)];
    return out;
  }
  void activate(Stream& stream, const Micro& micro, Hidden& x, Saved& saved) const;
  void gate(Stream& stream, const Micro& micro, Saved& saved) const;
  bool is_gated() const { return !parts_.activation; }
  // In fp8 the activation takes the product as it is stored, rounded, on each device.
  bool rounds_first() const { return !is_gated() && parts_.down.fp8 != nullptr; }
  // Whether quantising makes the activation: then Slot::Active never holds it.
  bool activates_late(int64_t tokens) const;
  OperandSlots active(const Micro& micro, Saved& saved) const;

  MlpParts parts_;
};

}  // namespace sextant
