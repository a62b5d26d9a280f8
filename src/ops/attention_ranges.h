#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// Attention in which each query attends to a range of keys of a separate tensor of any length, as
// context parallelism needs it. The parts of the keys are computed one at a time and merged; the
// backward of each part needs the merged lse and delta, and the gradients of the parts add up.
//   qkv: [batch * seq, ...] as in Heads; only the queries are read
//   kv: [batch * kv_seq, kv_heads * 2 * head_dim], for each key-value head its key, then its value
//   begin, end: [batch, seq], i32, non-decreasing along a row, within 0 ... kv_seq: token i attends
//       to keys begin[i] ... end[i] - 1, none if begin[i] >= end[i]; bad values are reported as
//       Error(Usage) and clamped
//   out: [batch * seq, heads * head_dim], 0 for a query without keys
//   lse: [batch, heads, seq], -infinity for a query without keys; f64 with f64, otherwise f32
// With bf16 and f16, `out`, dqkv and dkv may be of that type or of f32, which is how the parts of a
// ring add up without rounding in between.
// The same ranges over the same keys give the bits of attention(). A trace counts the FLOPs of all
// seq * kv_seq pairs, forward and backward, the maximum; with heads.window, which promises that no
// range is longer, at most so many for each query.
void attention_ranges(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& kv,
                      const Tensor& begin, const Tensor& end, const Heads& heads, int64_t kv_seq);

// With Write::Chain, parts that begin at multiples of this many keys give the bits of one part,
// unless dqkv is narrower than the sums.
inline constexpr int64_t kKeysTogether = 96;

// Backward of one part with P = exp(score - lse); lse and delta are the merged ones of all parts.
// Only the query columns of dqkv are written.
//   dkv: as kv   delta: [batch, heads, seq], see attention_delta
//   write_dq: Replace, or Chain for the later parts of a query's keys
//   write_dkv: Replace, or Add for the later queries of a key
void attention_ranges_backward(Stream& stream, Tensor& dqkv, Tensor& dkv, const Tensor& dout,
                               const Tensor& delta, const Tensor& lse, const Tensor& qkv,
                               const Tensor& kv, const Tensor& begin, const Tensor& end,
                               const Heads& heads, int64_t kv_seq, Write write_dq, Write write_dkv);

// delta = sum over a head of dout * out.
//   delta: [batch, heads, seq], of lse's type   dout, out: [batch * seq, heads * head_dim]
void attention_delta(Stream& stream, Tensor& delta, const Tensor& dout, const Tensor& out,
                     const Heads& heads);

// Merges two parts into out and lse: with l = log(e^lse + e^lse_b), lse = l and
// out = e^(lse - l) out + e^(lse_b - l) out_b. A query without keys in one part gets the bits of
// the other.   out, out_b: [batch * seq, heads * head_dim]   lse, lse_b: [batch, heads, seq]
void attention_merge(Stream& stream, Tensor& out, Tensor& lse, const Tensor& out_b,
                     const Tensor& lse_b);

}  // namespace sextant
