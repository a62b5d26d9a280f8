#pragma once
#include "base/function_ref.h"
#include "base/range.h"
#include "comm/communicator.h"

namespace sextant {

// The ranks that share every layer (tensor parallel), seen by one of them. A layer's common work
// takes all tokens and leaves on each rank one term of a sum over the ranks. Between such works all
// ranks have all tokens; or, with `sequence`, each has its own part of them, which needs a
// quarter more communication and less memory. Going back, enter and leave change places.
//
// Work that is given to enter and leave may be cut along the tokens. With Moves::InPieces it is,
// and tokens travel beside it.
class TensorRanks {
 public:
  enum class Moves : uint8_t { Whole, InPieces };  // InPieces needs `sequence`

  // `ranks` must outlive it.
  TensorRanks(Communicator& ranks, bool sequence, Moves moves = Moves::Whole)
      : ranks_(&ranks), sequence_(sequence), moves_(moves) {}

  int size() const { return ranks_->size(); }
  int rank() const { return ranks_->rank(); }
  bool is_alone() const { return size() == 1; }
  bool has_own_tokens() const { return sequence_ && !is_alone(); }

  // Those of `tokens` that this rank has between common works.
  Range own(int64_t tokens) const {
    return has_own_tokens() ? even_part(tokens, size(), rank()) : Range{0, tokens};
  }
  // All tokens when this rank has so many.
  int64_t all(int64_t own) const { return has_own_tokens() ? own * size() : own; }

  // All tokens, from what each rank has: [own, width] -> [tokens, width].
  Tensor enter(Stream& stream, const Tensor& x) const;
  // And calls work(piece, rows) for pieces of all tokens as they come: piece is rows of them.
  Tensor enter(Stream& stream, const Tensor& x,
               FunctionRef<void(const Tensor& piece, const Range& rows)> work) const;
  // The sum over the ranks of their terms: [tokens, width] -> [own, width]. May reuse `term`.
  Tensor leave(Stream& stream, const Tensor& term) const;
  // Of terms that make(term, rows) writes, of some rows at a time. `shape` is of all of them,
  // [tokens, width].
  Tensor leave(Stream& stream, DType dtype, const Shape& shape,
               FunctionRef<void(Tensor& term, const Range& rows)> make) const;
  // The terms of all ranks, in rank order: [rows, width] -> [ranks, rows, width].
  Tensor gather(Stream& stream, const Tensor& term) const;

 private:
  bool moves_in_pieces() const { return has_own_tokens() && moves_ == Moves::InPieces; }

  Communicator* ranks_;
  bool sequence_;
  Moves moves_;
};

}  // namespace sextant
