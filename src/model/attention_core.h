#pragma once
#include "model/layer.h"
#include "ops/heads.h"
#include "parallel/context_ranks.h"

namespace sextant {

// softmax(q k^T / sqrt(head_dim)) v over whole sequences, of which this rank has all tokens or
// shares them with others. A part of a layer, not a layer: its owner names the slots.
class AttentionCore {
 public:
  // What is kept for backward. `out` is attended as the core computes it: [tokens, heads] of this
  // rank, or of all tokens of its group and some heads.
  struct Slots {
    Tensor& qkv;
    Tensor& lse;
    Tensor& out;
  };

  // `statistics`: type of the log-sum-exp.
  AttentionCore(const ContextRanks& ranks, DType statistics)
      : ranks_(&ranks), statistics_(statistics) {}

  // Attended, [tokens, heads * head_dim], from saved.qkv as in Heads.
  Tensor forward(Stream& stream, const Micro& micro, const Heads& heads, Slots saved) const;
  // The same from saved.qkv as forward left it, when the other slots have been let go.
  Tensor recompute(Stream& stream, const Micro& micro, const Heads& heads, Slots saved) const;
  // The gradient of qkv; clears the slots.
  Tensor backward(Stream& stream, const Micro& micro, const Heads& heads, Tensor dattended,
                  Slots saved) const;

 private:
  Heads heads_in_group(const Heads& heads) const;
  int64_t copies(const Heads& heads) const;
  Tensor exchange(Stream& stream, Tensor qkv, const Heads& heads) const;
  Tensor exchange_back(Stream& stream, Tensor dqkv, const Heads& heads) const;
  void attend(Stream& stream, const Micro& micro, const Heads& heads, Slots saved) const;
  Tensor attend_backward(Stream& stream, const Micro& micro, const Heads& heads, Tensor dout,
                         Slots saved) const;

  const ContextRanks* ranks_;
  DType statistics_;
};

}  // namespace sextant
