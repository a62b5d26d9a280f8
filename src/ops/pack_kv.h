#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// Copies keys and values between the fused layout of Heads and a separate tensor, which ranks send.
//   qkv, dqkv: [tokens, ...] as in Heads   kv, dkv: [tokens, kv_heads * 2 * head_dim]

// kv = the keys and values of qkv.
void pack_kv(Stream& stream, Tensor& kv, const Tensor& qkv, const Heads& heads);

// Key and value columns of dqkv = dkv; query columns stay unchanged.
void unpack_kv(Stream& stream, Tensor& dqkv, const Tensor& dkv, const Heads& heads);

}  // namespace sextant
