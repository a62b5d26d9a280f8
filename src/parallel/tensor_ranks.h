#pragma once
#include "base/function_ref.h"
#include "base/range.h"
#include "comm/communicator.h"
#include "fault/inject.h"

namespace sextant {

// The tensor-parallel group, as one rank sees it. A tensor-parallel region takes all tokens and
// leaves a partial sum on each rank. Between regions all ranks have all tokens; or, with `sequence`
// (sequence parallel), each has its own part of them, which needs a quarter more communication and
// less memory. In backward, enter and leave swap roles.
//
// With Moves::InPieces, work passed to enter and leave is split along the tokens and overlaps with
// communication around a ring.
class TensorRanks {
 public:
  enum class Moves : uint8_t { Whole, InPieces };  // InPieces needs `sequence`

  // `ranks` must outlive it.
  TensorRanks(Communicator& ranks, bool sequence, Moves moves = Moves::Whole,
              const Injection& inject = {})
      : ranks_(&ranks), sequence_(sequence), moves_(moves), inject_(inject) {}

  int size() const { return ranks_->size(); }
  int rank() const { return ranks_->rank(); }
  bool is_alone() const { return size() == 1; }
  bool is_sequence_parallel() const { return sequence_ && !is_alone(); }
  bool is_injected(InjectionKind kind) const {  // a fault, for tests
    return inject_.hits(kind, ranks_->world_rank(rank()));
  }

  // The range of `tokens` that this rank has between regions.
  Range own(int64_t tokens) const {
    return is_sequence_parallel() ? even_part(tokens, size(), rank()) : Range{0, tokens};
  }
  // The number of all tokens when this rank has `own` of them between regions.
  int64_t all(int64_t own) const { return is_sequence_parallel() ? own * size() : own; }

  // Enters a region: all-gathers tokens if sequence parallel. [own, width] -> [tokens, width].
  Tensor enter(Stream& stream, const Tensor& x) const;
  // Also calls work(piece, rows) as pieces arrive; piece is `rows` of the result.
  Tensor enter(Stream& stream, const Tensor& x,
               FunctionRef<void(const Tensor& piece, const Range& rows)> work) const;
  // Leaves a region: sums `term` over the ranks by all-reduce, or by reduce-scatter if sequence
  // parallel. [tokens, width] -> [own, width]. May reuse the memory of `term`.
  Tensor leave(Stream& stream, const Tensor& term) const;
  // The same for partial sums that make(term, rows) computes, some rows at a time.
  //   shape: of all rows, [tokens, width]
  Tensor leave(Stream& stream, DType dtype, const Shape& shape,
               FunctionRef<void(Tensor& term, const Range& rows)> make) const;
  // All-reduce of counts of own tokens, if sequence parallel.
  void sum_tokens(Stream& stream, Tensor& counts) const {
    if (is_sequence_parallel()) ranks_->all_reduce(stream, counts, ReduceOp::Sum);
  }
  // All-gather without summing, in rank order: [rows, width] -> [ranks, rows, width].
  Tensor all_gather(Stream& stream, const Tensor& term) const;

 private:
  bool moves_in_pieces() const { return is_sequence_parallel() && moves_ == Moves::InPieces; }

  Communicator* ranks_;
  bool sequence_;
  Moves moves_;
  Injection inject_;
};

}  // namespace sextant
