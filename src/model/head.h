#pragma once
#include "config/config.h"
#include "model/linear.h"
#include "model/norm.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

struct HeadParts {
  Norm norm;
  Linear output;      // [rows of this rank, hidden]; the token embedding when tied
  bool tied = false;  // then the weight belongs to the embedding
  int64_t vocab = 0;  // columns beyond it are padding
  LogitsPolicy logits = LogitsPolicy::Keep;
  int64_t first_row = 0;     // of `output` in the whole
  const TensorRanks* ranks;  // that share the layer; each has some rows of `output`
};

// Final norm, projection to the vocabulary and cross entropy. What it gives in place of a hidden
// state is Micro::output; a loss is also added up in Micro::sums. LogitsPolicy::Keep holds the
// logits until backward. Chunked makes them a few thousand columns at a time, and once more in
// backward_input, which then also does the work of backward_weight; the results have the same bits,
// unless ranks move tokens in pieces: the weight gradient then has those of its terms that came
// first first.
class Head final : public Layer {
 public:
  static constexpr int64_t kChunk = 4096;  // columns at a time, a multiple of kVocabBlock

  explicit Head(const HeadParts& parts);

  std::vector<Param*> params() override;
  Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) override;
  // dy is not read: the seed of the backward pass is micro.scalars.loss_scale.
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;

 private:
  enum class Slot { X, Mean, Inverse, Normed, Logits, Lse };
  static Norm::Slots norm_slots(Saved& saved) {
    return {saved[Slot::X], saved[Slot::Mean], saved[Slot::Inverse]};
  }
  // For the columns that exist at a time under the policy.
  void for_chunks(FunctionRef<void(const Range& columns)> work) const;
  // Without loss. For one rank alone.
  Tensor logits(Stream& stream, const Micro& micro, Hidden x) const;
  Tensor project(Stream& stream, const Tensor& x, const Range& columns,
                 const Tensor& kept = {}) const;

  HeadParts parts_;
};

}  // namespace sextant
