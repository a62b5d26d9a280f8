#pragma once
#include "ops/heads.h"
#include "tensor/stream.h"

namespace sextant {

// Causal attention as it is written down: every head's matrix of probabilities lies in memory,
// products are GEMMs, the softmax is a plain loop over rows. What the tiled op is measured against.
// Heads lie one after the other, so that no time goes into rearranging them.
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
  Tensor dscores_;  // [seq, seq], of one head at a time
};

}  // namespace sextant
