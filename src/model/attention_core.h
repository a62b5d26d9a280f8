#pragma once
#include <string>
#include <utility>

#include "model/layer.h"
#include "model/statistics.h"
#include "ops/heads.h"
#include "parallel/context_ranks.h"

namespace sextant {

// softmax(q k^T / sqrt(head_dim)) v over whole sequences, with or without context parallelism. Part
// of a layer, not a layer: the owner names the slots.
class AttentionCore {
 public:
  // Saved for backward. `out` is the attention output as computed: [own tokens, heads], or with
  // Ulysses all tokens of the group and some of the heads.
  struct Slots {
    Tensor& qkv;
    Tensor& lse;
    Tensor& out;
  };

  // `statistics`: dtype of the log-sum-exp; `watch` records it under the weight `name`.
  AttentionCore(const ContextRanks& ranks, DType statistics, Statistics* watch = nullptr,
                std::string name = {})
      : ranks_(&ranks), statistics_(statistics), watch_(watch), name_(std::move(name)) {}

  // Attention output, [tokens, heads * head_dim], from saved.qkv as in Heads.
  Tensor forward(Stream& stream, const Micro& micro, const Heads& heads, Slots saved) const;
  // The same from saved.qkv after forward, when the other slots were freed.
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
  Statistics* watch_;
  std::string name_;
};

}  // namespace sextant
