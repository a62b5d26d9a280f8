#pragma once
#include "model/layer.h"

namespace sextant {

// LayerNorm when there is a bias, RMSNorm when there is none. A part of a layer, not a layer: its
// owner names the slots.
struct Norm {
  Param* weight = nullptr;
  Param* bias = nullptr;  // null for RMSNorm
  double eps = 1e-5;
  DType statistics = DType::F32;  // type of mean and 1/std

  // Slots of the owner: x and statistics are kept until backward.
  struct Slots {
    Tensor& x;
    Tensor& mean;  // unused by RMSNorm
    Tensor& inverse;
  };

  // Of the sum of x, which it leaves as its residual, without an update.
  Tensor forward(Stream& stream, Hidden& x, Slots saved) const;
  // residual + gradient of x, for dy the gradient of the normed value; clears the slots. An empty
  // residual means none.
  Tensor backward(Stream& stream, const Tensor& dy, const Tensor& residual, Slots saved) const;
};

}  // namespace sextant
