#pragma once
#include "model/attention.h"
#include "ops/latent_heads.h"

namespace sextant {

struct LatentAttentionParts {
  Norm norm;
  // Queries: from a latent (q_a, its norm, q_b), or without q_a from the hidden state (q_b).
  Param *q_a = nullptr, *q_norm = nullptr;
  Linear q_b;
  // Keys and values: from a latent, and the rotated columns of all keys.
  Param *kv_a = nullptr, *kv_norm = nullptr, *k_rope = nullptr;
  Linear kv_b, out;
  const TensorRanks* ranks;  // tensor parallel; each rank has some of the heads, all latents
  const ContextRanks* context;
  Dropout dropout = {};
};

// Multi-head latent attention (DeepSeek-V2): queries, and keys with values, are projected from
// normed latents of low rank. Attention itself takes expanded heads, with values filled up to the
// width of keys. Latents are of this rank's own tokens; tensor parallel regions begin after them.
// In fp8 the projections to latents and to the rotated key columns stay in the compute type.
class LatentAttention final : public Layer {
 public:
  // `heads`: of this rank; its tokens are those of each micro-batch. `index`: in a KvCache.
  LatentAttention(const LatentAttentionParts& parts, const LatentHeads& heads,
                  const RopeTable& rope, size_t index);

  std::vector<Param*> params() override;
  Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) override;
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;
  void discard_activations(Keep keep, Saved& saved) override;
  Hidden recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved) override;

 private:
  // After backward_input: QLatent, KvLatent hold their own gradients, Qkv that of the queries, Lse
  // that of keys and values, Out that of this rank's rotated key columns.
  enum class Slot {
    X,
    Mean,
    Inverse,
    Normed,
    QLatent,
    QInverse,
    QNormed,  // the input of q_b
    QNormedAmax,
    KvLatent,
    KvInverse,
    KvNormed,
    KvNormedAmax,
    Qkv,
    QkvAmax,
    Lse,
    LseAmax,
    Out,
    Attended,
    AttendedAmax,
    Dy,
    DyAmax,
    Count
  };
  static Norm::Slots norm_slots(Saved& saved) {
    return {saved[Slot::X], saved[Slot::Mean], saved[Slot::Inverse]};
  }
  static AttentionCore::Slots core_slots(Saved& saved) {
    return {saved[Slot::Qkv], saved[Slot::Lse], saved[Slot::Out]};
  }
  // An operand of a linear layer and, in fp8, its scales.
  static OperandSlots operand(Saved& saved, Slot values) {
    return {saved[values], saved[static_cast<Slot>(static_cast<int>(values) + 1)]};
  }
  // A latent of the hidden state and its norm.
  struct Latent {
    Param *down, *norm;
    Tensor &value, &inverse, &normed;
  };
  Latent queries(Saved& saved) const {
    return {parts_.q_a, parts_.q_norm, saved[Slot::QLatent], saved[Slot::QInverse],
            saved[Slot::QNormed]};
  }
  Latent keys(Saved& saved) const {
    return {parts_.kv_a, parts_.kv_norm, saved[Slot::KvLatent], saved[Slot::KvInverse],
            saved[Slot::KvNormed]};
  }
  Heads core_heads(const Micro& micro) const;
  LatentHeads heads_for(const Micro& micro) const;
  void make(Stream& stream, const Tensor& normed, Latent latent) const;
  void backward(Stream& stream, const Tensor& dnormed_latent, Latent latent) const;
  void project(Stream& stream, const Micro& micro, Saved& saved) const;
  Tensor values_of(Stream& stream, const Micro& micro, const Tensor& attended) const;
  Tensor project_backward(Stream& stream, const Micro& micro, const Tensor& dqkv,
                          Saved& saved) const;

  LatentAttentionParts parts_;
  AttentionCore core_;
  LatentHeads heads_;
  RopeTable rope_;
  size_t index_;
};

}  // namespace sextant
