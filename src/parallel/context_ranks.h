#pragma once
#include <memory>
#include <vector>

#include "blueprint/context_part.h"
#include "comm/communicator.h"
#include "fault/inject.h"
#include "ops/sequence_rows.h"

namespace sextant {

// Sends to the next rank of a ring and receives from the previous one.
class RingNeighbours {
 public:
  explicit RingNeighbours(std::unique_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

  Pending send(Stream& stream, const Tensor& data, When when) const {
    return ranks_->send(stream, data, (ranks_->rank() + 1) % ranks_->size(), when);
  }
  Pending receive(Stream& stream, Tensor& data, When when) const {
    return ranks_->receive(stream, data, (ranks_->rank() + ranks_->size() - 1) % ranks_->size(),
                           when);
  }

 private:
  std::unique_ptr<Communicator> ranks_;
};

// The context-parallel group, as one rank sees it. Consecutive ranks form Ulysses groups; ranks at
// the same position in these groups form a ring.
class ContextRanks {
 public:
  // Collective over `ranks`, which must outlive this.
  ContextRanks(Communicator& ranks, const ContextPart& part, int64_t seq,
               const Injection& inject = {});

  const ContextPart& part() const { return part_; }
  bool is_injected(InjectionKind kind) const {  // a fault, for tests
    return inject_.hits(kind, ranks_->world_rank(part_.rank));
  }

  // All-to-all within the Ulysses group: from this rank's tokens with all heads to the tokens of
  // the group with some whole heads, and back. Rows are [batch, tokens].
  //   x: [batch * own, width]   by_heads: [batch * tokens of the group, width / ulysses]
  Tensor to_heads(Stream& stream, Tensor x, int64_t batch) const;
  Tensor to_tokens(Stream& stream, Tensor by_heads, int64_t batch) const;

  // All-gather over all ranks, in sequence order: [batch * own, width] -> [batch * seq, width].
  Tensor all_gather(Stream& stream, Tensor own, int64_t batch) const;
  // This rank's tokens of a gathered tensor: [batch * seq, width] -> [batch * own, width].
  Tensor own_tokens(Stream& stream, const Tensor& whole, int64_t batch) const;
  // Reduce-scatter, the backward of gather: [batch * seq, width] -> [batch * own, width].
  Tensor reduce_scatter(Stream& stream, Tensor terms, int64_t batch) const;

  // All-reduce of counts of own tokens.
  void sum_tokens(Stream& stream, Tensor& counts) const {
    if (part_.degree > 1) ranks_->all_reduce(stream, counts, ReduceOp::Sum);
  }

  // Two communicators of the same ring, so that messages on one do not wait for the other.
  const RingNeighbours& ring() const { return ring_; }
  const RingNeighbours& gradient_ring() const { return gradient_ring_; }

 private:
  std::unique_ptr<Communicator> join(Communicator& ranks, bool is_ring, const char* name) const;

  ContextPart part_;
  Communicator* ranks_;
  Injection inject_;
  std::unique_ptr<Communicator> group_;
  RingNeighbours ring_, gradient_ring_;
  std::vector<TokenChunk> positions_;  // in the sequence, of the tokens of all ranks
  TokenChunks chunks_;                 // all of them
};

}  // namespace sextant
