#pragma once
#include <span>
#include <vector>

#include "ops/heads.h"
#include "tensor/tensor.h"

namespace sextant {

class ChosenExperts;

// Keys and values of earlier tokens, one pair per attention layer, for generation.
//   keys, values: [batch, kv_heads, capacity, head_dim]
struct KvCache {
  std::vector<Tensor> keys, values;
  int64_t past = 0;  // tokens already in the cache
};

// Values that change every step. Ops read them from device memory, so that a captured step can be
// replayed.
struct StepScalars {
  // [1], f64: loss scale / valid tokens of the global batch; where backward starts
  Tensor loss_weight;
  Tensor dropout_step;  // [1], f64: training step from 0; selects the dropout mask
  int64_t step = 0;     // the same on the host, for fault injection
  // [1], f64: loss scale / micro-batches of the global batch; weighs auxiliary losses
  Tensor aux_loss_weight = {};
};

// What the head computes for a micro-batch.
enum class HeadOutput : uint8_t {
  Loss,             // per token, [tokens], and their sum
  LossAndGradient,  // of a training step: the head may start its backward in forward
  Logits,           // of all tokens, [tokens, padded vocab]
  LastLogits,       // of the last token of each row, [batch, padded vocab]
};

// Sums over a micro-batch that layers compute besides y.
enum class SideSum : uint8_t { Loss, Count };

// One micro-batch on the device: `batch` rows of `seq` tokens, i32 tensors of [batch * seq]. With
// context parallelism, the tokens of this rank in its order (see ContextPart).
struct Micro {
  int64_t batch = 0, seq = 0;
  Tensor tokens;
  Tensor targets;    // -1 where the loss is masked; empty without loss
  Tensor positions;  // index of the token in its document
  Tensor starts;     // index in the row of the document's first token
  // Context parallel, in place of starts: the range of keys that each query of this rank sees, per
  // part of the keys, [parts, batch, queries]. Allgather has one part, all keys in sequence order.
  // Ring has one part per group, this rank's first, then those before it, each in its group's
  // order. Ulysses is a ring of one group.
  Tensor key_begin, key_end;
  StepScalars scalars;       // of a training step
  double z_loss = 0;         // weight of the squared log-sum-exp in the training loss
  KvCache* cache = nullptr;  // set during generation
  HeadOutput output = HeadOutput::Loss;
  Tensor sums;  // f64, one per SideSum; layers add to it in forward
  // Of a training step of a model with experts: for each layer with experts its balance loss, its
  // z-loss, the choices of each expert and the dropped ones, f64 [layers, 3 + experts]; layers add
  // to it in forward.
  Tensor routing;

  // Index of each token in the global batch: sample * seq + place in the row. Empty without
  // dropout.
  Tensor indices;
  // For verify, or null: notes or replaces the experts of tokens. Beside it, on the host, the
  // numbers of this rank's tokens as in `indices`, without those of padding rows at the end.
  ChosenExperts* chosen_experts = nullptr;
  std::span<const int32_t> token_numbers;

  int64_t size() const { return batch * seq; }
  Tensor sum_of(SideSum which) const {
    const auto at = static_cast<int64_t>(which);
    return sums.slice(at, at + 1);
  }
};

}  // namespace sextant
