#pragma once
#include "model/attention_core.h"
#include "model/dropout.h"
#include "model/linear.h"
#include "model/norm.h"
#include "ops/heads.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// RoPE tables, shared by all attention layers; empty for learned positions.
struct RopeTable {
  Tensor cos, sin;  // [longest sequence, head_dim / 2]
};

struct AttentionParts {
  Norm norm;
  Linear qkv, out;
  Param* q_norm = nullptr;  // Qwen3: norm of every query and key head; else null
  Param* k_norm = nullptr;
  const TensorRanks* ranks;  // tensor parallel; each rank has some of the heads
  // Context parallel; each rank has some of the tokens.
  const ContextRanks* context;
  Dropout dropout = {};
};

// x + dropout(out(attention(qkv(norm(x))))).
class Attention final : public Layer {
 public:
  // `index`: the layer's entry in a KvCache; `heads`: head counts of this rank and head_dim.
  Attention(const AttentionParts& parts, const Heads& heads, const RopeTable& rope, size_t index);

  std::vector<Param*> params() override;
  Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) override;
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;
  void discard_activations(Keep keep, Saved& saved) override;
  Hidden recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved) override;

 private:
  enum class Slot {
    X,
    Mean,
    Inverse,
    Normed,
    NormedAmax,
    RawQkv,
    HeadInverse,
    Qkv,
    QkvAmax,
    QkvSums,
    Lse,
    Out,
    Attended,
    AttendedAmax,
    Dy,
    DyAmax,
    DySums,
    Count
  };
  static Norm::Slots norm_slots(Saved& saved) {
    return {saved[Slot::X], saved[Slot::Mean], saved[Slot::Inverse]};
  }
  static AttentionCore::Slots core_slots(Saved& saved) {
    return {saved[Slot::Qkv], saved[Slot::Lse], saved[Slot::Out]};
  }
  static OperandSlots operand(Saved& saved, Slot values) {
    return {saved[values], saved[static_cast<Slot>(static_cast<int>(values) + 1)]};
  }
  static OperandSlots gradient(Saved& saved, Slot values) {
    OperandSlots out = operand(saved, values);
    out.sums = &saved[static_cast<Slot>(static_cast<int>(values) + 2)];
    return out;
  }
  Heads heads_for(const Micro& micro) const;
  void restore_attended(Stream& stream, Saved& saved) const;
  Hidden run(Stream& stream, const Micro& micro, Hidden x, Saved& saved);
  void project(Stream& stream, const Micro& micro, Saved& saved) const;

  AttentionParts parts_;
  AttentionCore core_;
  Heads heads_;
  RopeTable rope_;
  size_t index_;
};

}  // namespace sextant
