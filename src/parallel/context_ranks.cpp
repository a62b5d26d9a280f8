#include "parallel/context_ranks.h"

#include "ops/split_heads.h"
#include "parallel/activation.h"
#include "tensor/copy.h"

namespace sextant {

ContextRanks::ContextRanks(Communicator& ranks, const ContextPart& part, int64_t seq,
                           const Injection& inject)
    : part_(part),
      ranks_(&ranks),
      inject_(inject),
      group_(join(ranks, false, "ulysses")),
      ring_(join(ranks, true, "ring")),
      gradient_ring_(join(ranks, true, "gradient ring")) {
  const int64_t own = seq / part_.degree;
  for (int rank = 0; rank < part_.degree; ++rank) {
    ContextPart other = part_;
    other.rank = rank;
    int64_t before = rank * own;
    for (const Range& run : tokens_of(other, seq)) {
      positions_.push_back({before, run.begin, run.size()});
      before += run.size();
    }
  }
  chunks_ = TokenChunks(positions_);
}

// The Ulysses group of this rank, or the ring of ranks with the same position in all such groups.
std::unique_ptr<Communicator> ContextRanks::join(Communicator& ranks, bool is_ring,
                                                 const char* name) const {
  const auto is_member = [&](int rank) {
    return is_ring ? rank % part_.ulysses == part_.rank % part_.ulysses
                   : rank / part_.ulysses == part_.group();
  };
  return ranks.subgroup(ranks_where(ranks.size(), is_member), name);
}

Tensor ContextRanks::to_heads(Stream& stream, Tensor x, int64_t batch) const {
  const int64_t ranks = part_.ulysses, tokens = x.dim(0), width = x.dim(1) / ranks;
  const Shape shape{ranks, tokens, width}, all{ranks * tokens, width};
  Tensor parts = allocate_activation(stream, x, shape);
  split_heads(stream, parts, x);
  x = Tensor();
  Tensor received = allocate_activation(stream, parts, shape);
  group_->all_to_all(stream, received, parts);
  parts = Tensor();
  if (batch == 1) return received.view(all);
  Tensor joined = allocate_activation(stream, received, all);
  join_sequence(stream, joined, received, batch);
  return joined;
}

Tensor ContextRanks::to_tokens(Stream& stream, Tensor by_heads, int64_t batch) const {
  const int64_t ranks = part_.ulysses, tokens = by_heads.dim(0) / ranks, width = by_heads.dim(1);
  const Shape shape{ranks, tokens, width};
  Tensor parts;
  if (batch == 1) {
    parts = by_heads.view(shape);
  } else {
    parts = allocate_activation(stream, by_heads, shape);
    split_sequence(stream, parts, by_heads, batch);
  }
  by_heads = Tensor();
  Tensor received = allocate_activation(stream, parts, shape);
  group_->all_to_all(stream, received, parts);
  parts = Tensor();
  Tensor x = allocate_activation(stream, received, {tokens, ranks * width});
  join_heads(stream, x, received);
  return x;
}

Tensor ContextRanks::all_gather(Stream& stream, Tensor own, int64_t batch) const {
  const int64_t ranks = part_.degree, tokens = own.dim(0), width = own.dim(1);
  Tensor parts = allocate_activation(stream, own, {ranks, tokens, width});
  ranks_->all_gather(stream, parts, own);
  own = Tensor();
  Tensor whole = allocate_activation(stream, parts, {ranks * tokens, width});
  gather_chunks(stream, whole, parts, batch, chunks_);
  return whole;
}

Tensor ContextRanks::own_tokens(Stream& stream, const Tensor& whole, int64_t batch) const {
  const int64_t ranks = part_.degree, tokens = whole.dim(0) / ranks, width = whole.dim(1);
  Tensor parts = allocate_activation(stream, whole, {ranks, tokens, width});
  scatter_chunks(stream, parts, whole, batch, chunks_);
  return parts.slice(part_.rank, part_.rank + 1).view({tokens, width});
}

Tensor ContextRanks::reduce_scatter(Stream& stream, Tensor terms, int64_t batch) const {
  const int64_t ranks = part_.degree, tokens = terms.dim(0) / ranks, width = terms.dim(1);
  Tensor parts = allocate_activation(stream, terms, {ranks, tokens, width});
  scatter_chunks(stream, parts, terms, batch, chunks_);
  terms = Tensor();
  Tensor own = allocate_activation(stream, parts, {tokens, width});
  if (is_injected(InjectionKind::UnreducedKeys)) {
    copy(stream, own, parts.slice(part_.rank, part_.rank + 1));
    return own;
  }
  ranks_->reduce_scatter(stream, own, parts, ReduceOp::Sum);
  return own;
}

}  // namespace sextant
