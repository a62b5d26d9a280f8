#include "model/attention_core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "base/last_bit.h"
#include "model/context_attention.h"
#include "ops/attention.h"
#include "ops/split_heads.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// First visible key of each token, where a rank has all keys of its heads; a window may be left
// out.
Tensor document_starts(const Micro& micro, const Heads& heads) {
  return (micro.starts ? micro.starts : micro.key_begin).view({heads.batch, heads.seq});
}

// Adds or subtracts the last bit of the largest value in the column, which is what rounding does to
// sums that cancel. By the value's own bits: the same when it is recomputed.
void change_last_bits(Stream& stream, Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  copy_floats_to_host(stream, values, tensor);
  const auto columns = static_cast<size_t>(tensor.dim(1));
  std::vector<float> largest(columns, 0);
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i]))
      largest[i % columns] = std::max(largest[i % columns], std::abs(values[i]));
  for (size_t i = 0; i < values.size(); ++i) {
    if (largest[i % columns] == 0) continue;
    const uint64_t hash = (std::bit_cast<uint32_t>(values[i]) + i) * 0x9e3779b97f4a7c15U;
    const float bit = last_bit(largest[i % columns], tensor.dtype());
    values[i] += hash >> 63U ? bit : -bit;
  }
  copy_floats_from_host(stream, tensor, values);
}

}  // namespace

// Ulysses: all tokens of the group, this rank's share of the heads.
Heads AttentionCore::heads_in_group(const Heads& heads) const {
  const int64_t ranks = ranks_->part().ulysses;
  return {heads.batch,         heads.seq * ranks,
          heads.heads / ranks, heads.kv_heads * copies(heads) / ranks,
          heads.head_dim,      heads.window};
}

int64_t AttentionCore::copies(const Heads& heads) const {
  return kv_copies(ranks_->part(), heads.kv_heads);
}

Tensor AttentionCore::exchange(Stream& stream, Tensor qkv, const Heads& heads) const {
  if (copies(heads) > 1) {
    const int64_t width = (heads.heads + 2 * heads.kv_heads * copies(heads)) * heads.head_dim;
    Tensor repeated = allocate_activation(stream, qkv, {heads.tokens(), width});
    repeat_kv(stream, repeated, qkv, heads, copies(heads));
    qkv = std::move(repeated);
  }
  return ranks_->to_heads(stream, std::move(qkv), heads.batch);
}

Tensor AttentionCore::exchange_back(Stream& stream, Tensor dqkv, const Heads& heads) const {
  dqkv = ranks_->to_tokens(stream, std::move(dqkv), heads.batch);
  if (copies(heads) == 1) return dqkv;
  Tensor sum = allocate_activation(stream, dqkv, {heads.tokens(), heads.qkv_width()});
  repeat_kv_backward(stream, sum, dqkv, heads, copies(heads));
  return sum;
}

Tensor AttentionCore::forward(Stream& stream, const Micro& micro, const Heads& heads,
                              Slots saved) const {
  if (ranks_->part().ulysses > 1)
    saved.qkv = exchange(stream, std::exchange(saved.qkv, Tensor()), heads);
  return recompute(stream, micro, heads, saved);
}

Tensor AttentionCore::recompute(Stream& stream, const Micro& micro, const Heads& heads,
                                Slots saved) const {
  if (ranks_->part().ulysses == 1) {
    attend(stream, micro, heads, saved);
    return saved.out;
  }
  attend(stream, micro, heads_in_group(heads), saved);
  return ranks_->to_tokens(stream, saved.out, heads.batch);
}

Tensor AttentionCore::backward(Stream& stream, const Micro& micro, const Heads& heads,
                               Tensor dattended, Slots saved) const {
  if (watch_ != nullptr) watch_->read(stream, name_, saved.lse);
  const bool exchanges = ranks_->part().ulysses > 1;
  if (exchanges) dattended = ranks_->to_heads(stream, std::move(dattended), heads.batch);
  Tensor dqkv = attend_backward(stream, micro, exchanges ? heads_in_group(heads) : heads,
                                std::move(dattended), saved);
  saved.qkv = saved.lse = saved.out = Tensor();
  return exchanges ? exchange_back(stream, std::move(dqkv), heads) : dqkv;
}

// Attention of the group's queries over all keys.
void AttentionCore::attend(Stream& stream, const Micro& micro, const Heads& heads,
                           Slots saved) const {
  const ContextPart& part = ranks_->part();
  saved.out = allocate_activation(stream, saved.qkv, {heads.tokens(), heads.out_width()});
  saved.lse = allocate_activation(stream, statistics_, {heads.batch, heads.heads, heads.seq});
  if (part.uses_all_gather)
    all_gather_attention(stream, micro, heads, *ranks_, saved.qkv, saved.out, saved.lse);
  else if (part.ring() > 1)
    ring_attention(stream, micro, heads, *ranks_, saved.qkv, saved.out, saved.lse);
  else
    attention(stream, saved.out, saved.lse, saved.qkv, document_starts(micro, heads), heads);
  if (watch_ != nullptr) watch_->round(stream, saved.lse);
  if (ranks_->is_injected(InjectionKind::LastBits)) change_last_bits(stream, saved.out);
}

Tensor AttentionCore::attend_backward(Stream& stream, const Micro& micro, const Heads& heads,
                                      Tensor dout, Slots saved) const {
  const ContextPart& part = ranks_->part();
  if (part.uses_all_gather)
    return all_gather_attention_backward(stream, micro, heads, *ranks_, std::move(dout), saved);
  if (part.ring() > 1)
    return ring_attention_backward(stream, micro, heads, *ranks_, std::move(dout), saved);
  Tensor dqkv = allocate_activation(stream, dout, saved.qkv.shape());
  attention_backward(stream, dqkv, dout, saved.out, saved.lse, saved.qkv,
                     document_starts(micro, heads), heads);
  return dqkv;
}

}  // namespace sextant
