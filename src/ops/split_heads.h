#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// Splits columns into one part per rank for an all-to-all, and joins them again. In the fused
// layout of Heads the parts are whole heads if ranks divides kv_heads.
//   x: [tokens, width]   parts: [ranks, tokens, width / ranks], the columns in rank order
void split_heads(Stream& stream, Tensor& parts, const Tensor& x);
void join_heads(Stream& stream, Tensor& x, const Tensor& parts);

// Repeats every key-value head `copies` times, each with its share of the query heads, in the same
// order, so that more ranks than key-value heads can each have whole heads. The result is the fused
// layout of kv_heads * copies key-value heads; copies must divide heads / kv_heads.
//   qkv: [tokens, ...] as in Heads   out: [tokens, (heads + 2 * kv_heads * copies) * head_dim]
void repeat_kv(Stream& stream, Tensor& out, const Tensor& qkv, const Heads& heads, int64_t copies);

// dqkv: queries of dout; keys and values summed over their copies in order.
void repeat_kv_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Heads& heads,
                        int64_t copies);

}  // namespace sextant
