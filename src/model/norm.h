#pragma once
#include "model/layer.h"

namespace sextant {

// LayerNorm when there is a bias, RMSNorm when there is none. A part of a layer, not a layer: its
// owner names the slots.
struct Norm {
  Param* weight = nullptr;
  Param* bias = nullptr;  // null for RMSNorm
  double eps = 1e-5;

  // Slots of the owner: x and statistics are kept until backward.
  struct Slots {
    Tensor& x;
    Tensor& mean;  // unused by RMSNorm
    Tensor& inverse;
  };

  Tensor forward(Stream& stream, const Tensor& x, Slots saved) const;
  // residual + gradient of x, for dy the gradient of the normed value; clears the slots. An empty
  // residual means none.
  Tensor backward(Stream& stream, const Tensor& dy, const Tensor& residual, Slots saved) const;
};

}  // namespace sextant
