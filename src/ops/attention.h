#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// Tiled softmax(q k^T / sqrt(head_dim)) v; memory is linear in seq. Token i of a row sees tokens
// starts[i] ... i, so starts of 0 is plain causal attention and the first index of its document
// masks the others.
//   qkv: as in Heads   out: [tokens, heads * head_dim]   lse: [batch, heads, seq]
//   starts: [batch, seq], i32, never decreasing along a row; others are reported as Error(Usage)
//       and clamped
// A trace counts the FLOPs of plain causal attention, the most there can be.
void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads);

// dqkv: as qkv, replaced.   dout, out: [tokens, heads * head_dim]
void attention_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& starts,
                        const Heads& heads);

// Generation. heads.seq is the number of new tokens per row, which follow `past` earlier ones:
// their keys and values are appended to the cache and each new token attends to all before it.
//   keys, values: [batch, kv_heads, capacity, head_dim]   past + heads.seq <= capacity
void attention_cached(Stream& stream, Tensor& out, Tensor& keys, Tensor& values, const Tensor& qkv,
                      int64_t past, const Heads& heads);

}  // namespace sextant
