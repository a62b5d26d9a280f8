#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// Attention whose keys and values lie in a tensor of their own, of any length, where every query
// sees a range of keys: what a rank computes that holds a part of the sequence. The parts of a
// query's keys are attended one after the other and merged; the backward of each part needs the
// merged lse and delta, and the gradients of the parts add up.
//   qkv: [batch * seq, ...] as in Heads, of which only the queries are read
//   kv: [batch * kv_seq, kv_heads * 2 * head_dim], for each key-value head its key, then its value
//   begin, end: [batch, seq], i32, neither decreasing along a row: token i sees the keys begin[i]
//       ... end[i] - 1, none where begin[i] >= end[i]; all within 0 ... kv_seq; others are reported
//       as Error(Usage) and clamped
//   out: [batch * seq, heads * head_dim], 0 for a query that sees nothing
//   lse: [batch, heads, seq], -infinity for a query that sees nothing
// The same ranges over the same keys give the bits of attention(). A trace counts the FLOPs of all
// seq * kv_seq pairs, forward and backward, the most there can be.
void attention_ranges(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& kv,
                      const Tensor& begin, const Tensor& end, const Heads& heads, int64_t kv_seq);

// Parts that are cut at multiples of this many keys give the bits of one, where a part can go on
// from the part before it.
inline constexpr int64_t kKeysTogether = 96;

// With P = exp(score - lse), lse and delta being those of all parts. Of dqkv only the queries'
// columns are written.   dkv: as kv   delta: [batch, heads, seq], see attention_delta
//   write_dq: Replace, or Chain for the later parts of a query's keys
//   write_dkv: Replace, or Add for the later queries of a key
void attention_ranges_backward(Stream& stream, Tensor& dqkv, Tensor& dkv, const Tensor& dout,
                               const Tensor& delta, const Tensor& lse, const Tensor& qkv,
                               const Tensor& kv, const Tensor& begin, const Tensor& end,
                               const Heads& heads, int64_t kv_seq, Write write_dq, Write write_dkv);

// delta = sum over a head of dout * out.
//   delta: [batch, heads, seq]   dout, out: [batch * seq, heads * head_dim]
void attention_delta(Stream& stream, Tensor& delta, const Tensor& dout, const Tensor& out,
                     const Heads& heads);

// out and lse become those of both parts: with l = log(e^lse + e^lse_b),
// out = e^(lse - l) out + e^(lse_b - l) out_b. A row that saw nothing in one part keeps the bits of
// the other.   out, out_b: [batch * seq, heads * head_dim]   lse, lse_b: [batch, heads, seq]
void attention_merge(Stream& stream, Tensor& out, Tensor& lse, const Tensor& out_b,
                     const Tensor& lse_b);

}  // namespace sextant
