#pragma once
#include <memory>
#include <vector>

#include "blueprint/context_part.h"
#include "comm/communicator.h"
#include "ops/sequence_rows.h"

namespace sextant {

// Where things pass from rank to rank around a ring, each to the next one.
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

// The ranks that share every sequence (context parallel), seen by one of them.
class ContextRanks {
 public:
  // All ranks make theirs together; `ranks` must outlive it.
  ContextRanks(Communicator& ranks, const ContextPart& part, int64_t seq);

  const ContextPart& part() const { return part_; }

  // Within a group: from some tokens with all columns to all tokens of the group with some columns,
  // which are whole heads, and back. Rows are [batch, tokens].
  //   x: [batch * own, width]   by_heads: [batch * tokens of the group, width / ulysses]
  Tensor to_heads(Stream& stream, Tensor x, int64_t batch) const;
  Tensor to_tokens(Stream& stream, Tensor by_heads, int64_t batch) const;

  // Of all ranks, in the order of the sequence: [batch * own, width] -> [batch * seq, width].
  Tensor gather(Stream& stream, Tensor own, int64_t batch) const;
  // This rank's part of the sum over all ranks: the way back.
  Tensor reduce(Stream& stream, Tensor terms, int64_t batch) const;

  // Two ways around the ring of groups, so that what travels on one does not wait for the other.
  const RingNeighbours& ring() const { return ring_; }
  const RingNeighbours& gradient_ring() const { return gradient_ring_; }

 private:
  std::unique_ptr<Communicator> join(Communicator& ranks, bool is_ring, const char* name) const;

  ContextPart part_;
  Communicator* ranks_;
  std::unique_ptr<Communicator> group_;
  RingNeighbours ring_, gradient_ring_;
  std::vector<TokenChunk> chunks_;  // where the tokens of all ranks are in the sequence
};

}  // namespace sextant
