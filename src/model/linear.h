#pragma once
#include "model/layer.h"
#include "ops/linear.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// A weight matrix and an optional bias in a tensor parallel layer (`ranks` may have size 1). Column
// parallel: each rank has some rows of the weight, and the same columns of y for all tokens. Row
// parallel: each rank has some columns of the weight and of x, and one term of the sum y. Outside,
// a rank has its own tokens (sequence parallel).
struct Linear {
  Param* weight = nullptr;  // [out, in]
  Param* bias = nullptr;    // [out], or null

  int64_t out() const { return weight->value.dim(0); }
  int64_t in() const { return weight->value.dim(1); }

  // y = x * weight^T + bias, then the rest of the epilogue, whose bias is set here.
  //   x: [own, in]   y: [tokens, out]
  Tensor forward_column(Stream& stream, const Tensor& x, const TensorRanks& ranks,
                        Epilogue epilogue = {}) const;
  Tensor backward_input_column(Stream& stream, const Tensor& dy, const TensorRanks& ranks) const;
  void backward_weight_column(Stream& stream, const Tensor& dy, const Tensor& x,
                              const TensorRanks& ranks) const;

  // y = x * weight^T + bias, summed over the ranks; the bias is added once.
  //   x: [tokens, in]   y: [own, out]
  Tensor forward_row(Stream& stream, const Tensor& x, const TensorRanks& ranks) const;
  // Frees dy; also returns all_dy, dy of all tokens, for the weight gradient.
  Tensor backward_input_row(Stream& stream, Tensor& all_dy, Tensor dy, const TensorRanks& ranks,
                            const Epilogue& epilogue = {}) const;

  // dy and x of the same tokens: all of them, or some at a time.
  void backward_weight(Stream& stream, const Tensor& dy, const Tensor& x) const;
};

}  // namespace sextant
