#pragma once
#include "model/attention_core.h"

namespace sextant {

// Context parallel attention: a rank's queries over the keys of all ranks. `heads`: of queries.
//   out, dout: [tokens, heads * head_dim]   lse: [batch, heads, seq]   qkv, dqkv: as in Heads

// Ring attention: keys and values go from group to group; each attends to those it has and merges
// the results. In backward they go around again, and their gradients follow one step behind, back
// at their owner after a full round.
void ring_attention(Stream& stream, const Micro& micro, const Heads& heads,
                    const ContextRanks& ranks, const Tensor& qkv, Tensor& out, Tensor& lse);
Tensor ring_attention_backward(Stream& stream, const Micro& micro, const Heads& heads,
                               const ContextRanks& ranks, Tensor dout,
                               const AttentionCore::Slots& saved);

// Each rank all-gathers keys and values, in forward and again in backward, where their gradients
// are reduce-scattered.
void all_gather_attention(Stream& stream, const Micro& micro, const Heads& heads,
                          const ContextRanks& ranks, const Tensor& qkv, Tensor& out, Tensor& lse);
Tensor all_gather_attention_backward(Stream& stream, const Micro& micro, const Heads& heads,
                                     const ContextRanks& ranks, Tensor dout,
                                     const AttentionCore::Slots& saved);

}  // namespace sextant
