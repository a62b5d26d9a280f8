#pragma once
#include "model/layer.h"
#include "model/statistics.h"

namespace sextant {

// LayerNorm with a bias, RMSNorm without. Part of a layer, not a layer: the owner names the slots.
struct Norm {
  Param* weight = nullptr;
  Param* bias = nullptr;  // null for RMSNorm
  double eps = 1e-5;
  DType statistics = DType::F32;  // dtype of mean and 1/std
  Statistics* watch = nullptr;    // records them; null: nobody does

  // Slots of the owner: x and statistics, saved for backward.
  struct Slots {
    Tensor& x;
    Tensor& mean;  // unused by RMSNorm
    Tensor& inverse;
  };

  // Norm of residual + update; leaves the sum in x.residual and no update.
  Tensor forward(Stream& stream, Hidden& x, Slots saved) const;
  // The same again from the saved x.
  Tensor recompute(Stream& stream, Slots saved) const;
  // residual + gradient of x, where dy is the gradient of the normed value; clears the slots. An
  // empty residual means none.
  Tensor backward(Stream& stream, const Tensor& dy, const Tensor& residual, Slots saved) const;

 private:
  void compute(Stream& stream, Tensor& y, const Tensor& residual, Slots saved) const;
  void round(Stream& stream, Tensor& y, Slots saved) const;
};

}  // namespace sextant
