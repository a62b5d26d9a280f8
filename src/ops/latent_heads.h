#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Heads of multi-head latent attention: queries and keys are `nope` columns without positions, then
// `rope` columns that are rotated; the rotated columns of the key are the same for all heads.
// Values have another width, at most that of keys.
struct LatentHeads {
  int64_t tokens = 0, heads = 0, nope = 0, rope = 0, value = 0;
  double query_scale = 1;  // factor of queries, which softmax's scale has in DeepSeek-V3 with YaRN

  int64_t head_dim() const { return nope + rope; }
  int64_t kv() const { return nope + value; }
};

// The fused layout of Heads from its parts, rotated as in rope(): per head the query, the key and
// the value, filled up with zeros to head_dim.
//   qkv: [tokens, heads * 3 * head_dim]   q: [tokens, heads * head_dim]
//   kv: [tokens, heads * (nope + value)]   k_rope: [tokens, rope]
//   positions: [tokens], i32   cos, sin: [positions, rope / 2]
void join_latent_heads(Stream& stream, Tensor& qkv, const Tensor& q, const Tensor& kv,
                       const Tensor& k_rope, const Tensor& positions, const Tensor& cos,
                       const Tensor& sin, const LatentHeads& heads);
// The gradients of the parts; that of k_rope is the sum over the heads.
void join_latent_heads_backward(Stream& stream, Tensor& dq, Tensor& dkv, Tensor& dk_rope,
                                const Tensor& dqkv, const Tensor& positions, const Tensor& cos,
                                const Tensor& sin, const LatentHeads& heads);

// The first `value` columns of every head, and the reverse, which fills up with zeros.
//   values: [tokens, heads * value]   filled: [tokens, heads * head_dim]
void take_values(Stream& stream, Tensor& values, const Tensor& filled, const LatentHeads& heads);
void fill_values(Stream& stream, Tensor& filled, const Tensor& values, const LatentHeads& heads);

}  // namespace sextant
