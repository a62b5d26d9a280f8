#pragma once
#include "model/fp8_operands.h"
#include "model/layer.h"
#include "ops/linear.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// A weight matrix and an optional bias in a tensor parallel layer (`ranks` may have size 1). Column
// parallel: each rank has some rows of the weight, and the same columns of y for all tokens. Row
// parallel: each rank has some columns of the weight and of x, and one term of the sum y. Outside,
// a rank has its own tokens (sequence parallel).
//
// In fp8 (`fp8` is set) x, weight and dy are quantised before a product. What the weight gradient
// needs is saved in fp8, and sequence parallel ranks gather it in fp8; but of dy in blocks, which
// needs two forms, they gather the unquantised tensor, in as many bytes.
struct Linear {
  Param* weight = nullptr;           // [out, in]
  Param* bias = nullptr;             // [out], or null
  const Fp8Operands* fp8 = nullptr;  // null: products of the tensors' own type

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
  Fp8Operands::Pair quantize(Stream& stream, OperandSlots x, OperandKind kind,
                             int64_t part_rows = 0) const;
  Operand for_weight_gradient(const OperandSlots& x, int64_t part_rows = 0) const;
  void add_weight_gradient(Stream& stream, const Operand& dy, const Operand& x) const;
};

}  // namespace sextant
