#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// RMSNorm of every query and key head over head_dim (Qwen3): y = qkv with normalized queries and
// keys, values unchanged.
//   qkv, y: as in Heads   q_weight, k_weight: [head_dim]
//   inv_rms: [tokens, kv_heads * (group + 1)], kept for backward
void head_norm(Stream& stream, Tensor& y, Tensor& inv_rms, const Tensor& qkv,
               const Tensor& q_weight, const Tensor& k_weight, const Heads& heads, double eps);

// dqkv: gradient of the input; may be the same tensor as dy.
void head_norm_backward(Stream& stream, Tensor& dqkv, Tensor& dq_weight, Tensor& dk_weight,
                        const Tensor& dy, const Tensor& qkv, const Tensor& inv_rms,
                        const Tensor& q_weight, const Tensor& k_weight, const Heads& heads,
                        Write write_dw);

}  // namespace sextant
