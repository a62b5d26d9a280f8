#pragma once
#include "config/config.h"
#include "model/linear.h"
#include "model/norm.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

struct HeadParts {
  Norm norm;
  Linear output;      // [rows of this rank, hidden]; the token embedding when tied
  bool tied = false;  // tied embedding: `output` is owned by the embedding
  int64_t vocab = 0;  // columns beyond it are padding
  LogitsPolicy logits = LogitsPolicy::Keep;
  int64_t first_row = 0;     // row of the whole weight at which `output` starts
  const TensorRanks* ranks;  // tensor parallel; each rank has some rows of `output`
};

// Final norm, projection to the vocabulary and cross entropy. Returns Micro::output in place of a
// hidden state; a loss is also added to Micro::sums. LogitsPolicy::Keep stores the logits until
// backward or, for HeadOutput::LossAndGradient on a rank alone, their gradient. Chunked computes
// kChunk columns at a time, again in backward_input, which then computes the weight gradient too.
// The results have the same bits, except with tensor parallel overlap, where the weight gradient is
// summed over tokens in the order in which they arrive.
class Head final : public Layer {
 public:
  static constexpr int64_t kChunk = 4096;  // columns at a time, a multiple of kVocabBlock

  explicit Head(const HeadParts& parts);

  std::vector<Param*> params() override;
  Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) override;
  // dy is not read: backward starts from micro.scalars.loss_weight.
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;

 private:
  enum class Slot { X, Mean, Inverse, Normed, Logits, Lse, Count };
  static Norm::Slots norm_slots(Saved& saved) {
    return {saved[Slot::X], saved[Slot::Mean], saved[Slot::Inverse]};
  }
  // Whether forward leaves the gradient of the logits in their place.
  bool is_gradient_kept(const Micro& micro) const;
  // Calls `work` for each chunk of columns: one chunk with all columns for Keep.
  void for_chunks(FunctionRef<void(const Range& columns)> work) const;
  // Loss and log-sum-exp of each token, from logits that are kept or not.
  void cross_entropy_of_chunks(Stream& stream, const Micro& micro, Tensor& loss, Tensor& running,
                               Saved& saved) const;
  // Without loss. For one rank alone.
  Tensor logits(Stream& stream, const Micro& micro, Hidden x) const;
  Tensor project(Stream& stream, const Tensor& x, const Range& columns,
                 const Tensor& kept = {}) const;

  HeadParts parts_;
};

}  // namespace sextant
