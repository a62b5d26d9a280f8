#pragma once
#include "base/share.h"
#include "comm/communicator.h"

namespace sextant {

// The ranks that share every layer (tensor parallel), seen by one of them. A layer's common work
// takes all tokens and leaves on each rank one term of a sum over the ranks. Between such works all
// ranks have all tokens; or, with `sequence`, each has its own part of them, which needs as much
// communication and less memory. Going back, enter and leave change places.
class TensorRanks {
 public:
  TensorRanks() = default;  // one rank alone
  TensorRanks(Communicator* ranks, bool sequence) : ranks_(ranks), sequence_(sequence) {}

  int size() const { return ranks_ == nullptr ? 1 : ranks_->size(); }
  int rank() const { return ranks_ == nullptr ? 0 : ranks_->rank(); }
  bool is_alone() const { return size() == 1; }
  bool has_own_tokens() const { return sequence_ && !is_alone(); }

  // Those of `tokens` that this rank has between common works.
  Share own(int64_t tokens) const {
    return has_own_tokens() ? share_of(tokens, size(), rank()) : Share{0, tokens};
  }

  // All tokens, from what each rank has: [own, width] -> [tokens, width].
  Tensor enter(Stream& stream, const Tensor& x) const;
  // The sum over the ranks of their terms: [tokens, width] -> [own, width]. May reuse `term`.
  Tensor leave(Stream& stream, const Tensor& term) const;
  // The terms of all ranks, in rank order: [rows, width] -> [ranks, rows, width].
  Tensor gather(Stream& stream, const Tensor& term) const;

 private:
  Communicator* ranks_ = nullptr;
  bool sequence_ = false;
};

// A rank alone.
inline const TensorRanks kAlone;

}  // namespace sextant
