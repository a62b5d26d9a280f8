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

// One micro-batch on the device: `batch` rows of `seq` tokens, i32 tensors of [batch * seq].
struct Micro {
  int64_t batch = 0, seq = 0;
  Tensor tokens;
  Tensor targets;            // -1 where no loss counts; empty when there is none at all
  Tensor positions;          // index of the token in its document
  Tensor starts;             // index in the row of the document's first token
  double loss_scale = 1;     // 1 / valid tokens of the global batch: seeds the backward pass
  double z_loss = 0;         // weight of the square of the log-sum-exp in the loss, in training
  KvCache* cache = nullptr;  // set while generating

  int64_t size() const { return batch * seq; }
};

}  // namespace sextant
