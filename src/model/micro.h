#pragma once
#include <vector>

#include "ops/heads.h"
#include "tensor/tensor.h"

namespace sextant {

// Keys and values of earlier tokens, one pair per attention layer, while text is generated.
//   keys, values: [batch, kv_heads, capacity, head_dim]
struct KvCache {
  std::vector<Tensor> keys, values;
  int64_t past = 0;  // tokens already in the cache
};

// What changes from step to step. Ops read it from device memory, so that a recorded step can be
// replayed.
struct StepScalars {
  Tensor loss_scale;    // [1], f64: 1 / valid tokens of the global batch: seeds the backward pass
  Tensor dropout_step;  // [1], f64: of training, from 0: decides what is dropped
  int64_t step = 0;     // the same on the host, for faults injected on purpose
};

// What the head makes of a micro-batch.
enum class HeadOutput : uint8_t {
  Loss,        // of each token, [tokens]; and their sum
  Logits,      // of all tokens, [tokens, padded vocab]
  LastLogits,  // of the last token of each row, [batch, padded vocab]
};

// Sums over a micro-batch that layers give besides y: side outputs.
enum class SideSum : uint8_t { Loss, Count };

// One micro-batch on the device: `batch` rows of `seq` tokens, i32 tensors of [batch * seq]. Where
// ranks share each sequence these are the tokens of this rank, in its order (see ContextPart).
struct Micro {
  int64_t batch = 0, seq = 0;
  Tensor tokens;
  Tensor targets;    // -1 where no loss counts; empty when there is none at all
  Tensor positions;  // index of the token in its document
  Tensor starts;     // index in the row of the document's first token
  // Where ranks share the sequences, in place of starts: the keys that each query of this rank
  // sees, part of the keys after part, [parts, batch, queries]. Allgather has one part, all keys in
  // the order of the sequence; a ring one for each of its groups, this rank's first and then those
  // before it, each in the order of that group; Ulysses, a ring of one, all keys again.
  Tensor key_begin, key_end;
  StepScalars scalars;       // of a step of training
  double z_loss = 0;         // weight of the square of the log-sum-exp in the loss, in training
  KvCache* cache = nullptr;  // set while generating
  HeadOutput output = HeadOutput::Loss;
  Tensor sums;  // f64, one of each SideSum; a layer that has one adds to it in forward

  // Of each token in the batch of all ranks: sample * seq + place in the row. Empty when nothing is
  // dropped (Dropout).
  Tensor indices;

  int64_t size() const { return batch * seq; }
  Tensor sum_of(SideSum which) const {
    const auto at = static_cast<int64_t>(which);
    return sums.slice(at, at + 1);
  }
};

}  // namespace sextant
