#pragma once
#include "model/layer.h"
#include "ops/linear.h"
#include "parallel/amax_ranks.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// An operand of a linear layer in two slots of the owner: its values, and in fp8 their largest
// absolute value.
struct OperandSlots {
  Tensor& values;
  Tensor& amax;
};

// A weight matrix and an optional bias in a tensor parallel layer (`ranks` may have size 1). Column
// parallel: each rank has some rows of the weight, and the same columns of y for all tokens. Row
// parallel: each rank has some columns of the weight and of x, and one term of the sum y. Outside,
// a rank has its own tokens (sequence parallel).
//
// In fp8 (`fp8` is set) x and weight are rounded to E4M3 and dy to E5M2 before a product, each with
// one scale from its current largest absolute value (per-tensor current scaling). What the weight
// gradient needs is saved in fp8, and sequence parallel ranks gather it in fp8.
struct Linear {
  Param* weight = nullptr;         // [out, in]
  Param* bias = nullptr;           // [out], or null
  const AmaxRanks* fp8 = nullptr;  // null: products of the tensors' own type

  int64_t out() const { return weight->value.dim(0); }
  int64_t in() const { return weight->value.dim(1); }

  // y = x * weight^T + bias, then the rest of the epilogue, whose bias is set here.
  //   x: [own, in]; in fp8 quantised from here on   y: [tokens, out]
  Tensor forward_column(Stream& stream, OperandSlots x, const TensorRanks& ranks,
                        Epilogue epilogue = {}) const;
  // dy: [tokens, out]; in fp8 quantised from here on
  Tensor backward_input_column(Stream& stream, OperandSlots dy, const TensorRanks& ranks) const;
  void backward_weight_column(Stream& stream, OperandSlots dy, OperandSlots x,
                              const TensorRanks& ranks) const;

  // y = x * weight^T + bias, summed over the ranks; the bias is added once.
  //   x: [tokens, in]; in fp8 quantised from here on   y: [own, out]
  Tensor forward_row(Stream& stream, OperandSlots x, const TensorRanks& ranks) const;
  // Frees dy; also returns all_dy, dy of all tokens, for the weight gradient.
  Tensor backward_input_row(Stream& stream, OperandSlots all_dy, Tensor dy,
                            const TensorRanks& ranks, const Epilogue& epilogue = {}) const;

  // dy and x of the same tokens: all of them, or some at a time.
  void backward_weight(Stream& stream, OperandSlots dy, OperandSlots x) const;

  // For recomputation, in fp8 only: quantises x as forward does, without the product; the same with
  // the amax that forward found.
  void quantize_input(Stream& stream, OperandSlots x) const;
  void requantize(Stream& stream, OperandSlots x) const;

 private:
  // The weight as an operand, and its part of the epilogue.
  struct Weight {
    Tensor values, amax;
  };
  Weight quantize_with_weight(Stream& stream, OperandSlots x, DType dtype) const;
  void add_weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x,
                           const Epilogue& scales) const;
};

}  // namespace sextant
