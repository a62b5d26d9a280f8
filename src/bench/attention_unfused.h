#pragma once
#include "ops/heads.h"
#include "tensor/stream.h"

namespace sextant {

// Unfused causal attention, the baseline of the tiled op: every head's probability matrix is in
// memory, products are GEMMs, softmax is a plain loop over rows. Heads are contiguous, so that no
// time is spent on rearranging them.
class UnfusedAttention {
 public:
  UnfusedAttention(Stream& stream, const Heads& heads);

  void forward();
  void backward();  // after forward

  Tensor q, dq, out, dout;  // [batch * heads, seq, head_dim]
  Tensor k, v, dk, dv;      // [batch * kv_heads, seq, head_dim]
  Tensor probabilities;     // [batch * heads, seq, seq]

 private:
  Tensor matrix(const Tensor& stack, int64_t index) const;
  int64_t kv_of(int64_t head) const;

  Stream& stream_;
  Heads heads_;
  Tensor dscores_;  // [seq, seq], reused for each head
};

}  // namespace sextant
