#pragma once
#include "model/layer.h"
#include "ops/linear.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// A weight matrix and perhaps a bias, as used inside a layer.
struct Linear {
  Param* weight = nullptr;  // [out, in]
  Param* bias = nullptr;    // [out], or null

  int64_t out() const { return weight->value.dim(0); }
  int64_t in() const { return weight->value.dim(1); }

  // y = x * weight^T + bias, then the rest of the epilogue. The bias of `epilogue` is ours to set.
  Tensor forward(Stream& stream, const Tensor& x, Epilogue epilogue = {}) const;
  Tensor backward_input(Stream& stream, const Tensor& dy, const Epilogue& epilogue = {}) const;
  void backward_weight(Stream& stream, const Tensor& dy, const Tensor& x) const;

  // residual + x * weight^T + bias where each of `ranks` has some columns of the weight and of x:
  // the sum over them, of this rank's tokens. The bias is added once. An empty residual means none.
  Tensor forward_row(Stream& stream, const Tensor& x, const Tensor& residual,
                     const TensorRanks& ranks) const;
};

}  // namespace sextant
