#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// Tiled softmax(q k^T / sqrt(head_dim)) v; memory is linear in seq. Token i of a row attends to
// tokens starts[i] ... i: with starts 0 this is causal attention, with the first token of i's
// document it masks other documents. Of these tokens heads.window bounds the number to the last
// ones (sliding window attention).
//   qkv: as in Heads   out: [tokens, heads * head_dim]
//   lse: [batch, heads, seq], f64 with f64, otherwise f32
//   starts: [batch, seq], i32, non-decreasing along a row; bad values are reported as Error(Usage)
//       and clamped
// A trace counts the FLOPs of causal attention in the window, the maximum.
void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads);

// dqkv: as qkv, replaced.   dout, out: [tokens, heads * head_dim]
void attention_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& starts,
                        const Heads& heads);

// The memory that attention_backward takes from the arena while it runs on a device of kind
// `target`, for cuDNN: a bound that depends on the arguments only. 0 where cuDNN is not used, as
// with Bits::Repeat.
int64_t attention_workspace_bytes(const Heads& heads, DType dtype, DeviceKind target,
                                  Bits bits = Bits::MayVary);
// attention_backward in memory that the caller provides.
//   workspace: attention_workspace_bytes bytes; may be empty when that is 0
void attention_backward_in(Stream& stream, Tensor& dqkv, Tensor& workspace, const Tensor& dout,
                           const Tensor& out, const Tensor& lse, const Tensor& qkv,
                           const Tensor& starts, const Heads& heads);

// Attention with a KV cache, for generation. heads.seq new tokens per row follow `past` cached
// ones: their keys and values are appended to the cache, and attention is causal, in the window.
//   keys, values: [batch, kv_heads, capacity, head_dim]   past + heads.seq <= capacity
void attention_cached(Stream& stream, Tensor& out, Tensor& keys, Tensor& values, const Tensor& qkv,
                      int64_t past, const Heads& heads);

}  // namespace sextant
