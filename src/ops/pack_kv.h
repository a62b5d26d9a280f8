#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// Keys and values between the fused layout of Heads and a tensor of their own, such as travels to
// other ranks.   qkv, dqkv: [tokens, ...] as in Heads   kv, dkv: [tokens, kv_heads * 2 * head_dim]

// kv = the keys and values of qkv.
void pack_kv(Stream& stream, Tensor& kv, const Tensor& qkv, const Heads& heads);

// The columns of keys and values of dqkv = dkv; the queries' columns stay.
void unpack_kv(Stream& stream, Tensor& dqkv, const Tensor& dkv, const Heads& heads);

}  // namespace sextant
