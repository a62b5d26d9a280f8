#pragma once
#include "model/layer.h"

namespace sextant {

// Token embedding, plus learned positions where the family has them. Takes no x.
class Embedding final : public Layer {
 public:
  Embedding(Param* tokens, Param* positions);  // positions may be null

  std::vector<Param*> params() override;
  Tensor forward(Stream& stream, const Micro& micro, const Tensor& x, Saved& saved) override;
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;  // empty: nothing comes before
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;

 private:
  enum class Slot { Dy };

  Param* tokens_;
  Param* positions_;
};

}  // namespace sextant
