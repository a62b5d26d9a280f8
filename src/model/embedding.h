#pragma once
#include "model/dropout.h"
#include "model/layer.h"
#include "ops/embedding.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

struct EmbeddingParts {
  Param* tokens = nullptr;
  Param* positions = nullptr;  // null without learned positions
  TableRows rows = {};         // of `tokens` on this rank
  const TensorRanks* ranks;    // tensor parallel; each rank has some rows of `tokens`
  Dropout dropout = {};
};

// Token embedding, plus learned positions if the family has them, then dropout. Takes no x.
class Embedding final : public Layer {
 public:
  explicit Embedding(const EmbeddingParts& parts);

  std::vector<Param*> params() override;
  Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) override;
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;  // empty: first layer
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;

 private:
  enum class Slot { Dy, Count };

  Tensor own_positions(const Micro& micro) const;

  EmbeddingParts parts_;
};

}  // namespace sextant
