#pragma once
#include "model/layer.h"
#include "ops/linear.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// A weight matrix and perhaps a bias, as used inside a layer that `ranks` share (or one rank
// alone). A column linear has some rows of the weight on each rank, so some columns of y, of all
// tokens; a row linear some columns of the weight and of x, so one term of y. Outside of the two, a
// rank has its own tokens (TensorRanks).
struct Linear {
  Param* weight = nullptr;  // [out, in]
  Param* bias = nullptr;    // [out], or null

  int64_t out() const { return weight->value.dim(0); }
  int64_t in() const { return weight->value.dim(1); }

  // y = x * weight^T + bias, then the rest of the epilogue. The bias of `epilogue` is ours to set.
  //   x: [own, in]   y: [tokens, out]
  Tensor forward_column(Stream& stream, const Tensor& x, const TensorRanks& ranks,
                        Epilogue epilogue = {}) const;
  Tensor backward_input_column(Stream& stream, const Tensor& dy, const TensorRanks& ranks) const;
  void backward_weight_column(Stream& stream, const Tensor& dy, const Tensor& x,
                              const TensorRanks& ranks) const;

  // y = x * weight^T + bias: the sum over the ranks, to which the bias is added once.
  //   x: [tokens, in]   y: [own, out]
  Tensor forward_row(Stream& stream, const Tensor& x, const TensorRanks& ranks) const;
  // Gives also dy of all tokens, which the weight half takes; lets go of this rank's.
  Tensor backward_input_row(Stream& stream, Tensor& all_dy, Tensor dy, const TensorRanks& ranks,
                            const Epilogue& epilogue = {}) const;

  // From dy and x of the same tokens: all of them, or some at a time.
  void backward_weight(Stream& stream, const Tensor& dy, const Tensor& x) const;
};

}  // namespace sextant
