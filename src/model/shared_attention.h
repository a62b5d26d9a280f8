#pragma once
#include "model/attention_core.h"

namespace sextant {

// Attention of a rank's queries over keys that other ranks have. `heads` are those of the queries.
//   out, dout: [tokens, heads * head_dim]   lse: [batch, heads, seq]   qkv, dqkv: as in Heads

// Keys and values travel from group to group while each attends to those it has; what it found in
// them is merged. Going back, they travel once more, and the gradients that each rank adds to
// follow one step behind, home after a full round.
void ring_attention(Stream& stream, const Micro& micro, const Heads& heads,
                    const ContextRanks& ranks, const Tensor& qkv, Tensor& out, Tensor& lse);
Tensor ring_attention_backward(Stream& stream, const Micro& micro, const Heads& heads,
                               const ContextRanks& ranks, Tensor dout,
                               const AttentionCore::Slots& saved);

// Every rank gathers the keys and values of all, now and once more in backward, where the gradients
// are summed and scattered.
void gathered_attention(Stream& stream, const Micro& micro, const Heads& heads,
                        const ContextRanks& ranks, const Tensor& qkv, Tensor& out, Tensor& lse);
Tensor gathered_attention_backward(Stream& stream, const Micro& micro, const Heads& heads,
                                   const ContextRanks& ranks, Tensor dout,
                                   const AttentionCore::Slots& saved);

}  // namespace sextant
