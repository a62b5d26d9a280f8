#pragma once
#include "model/fp8_operands.h"
#include "ops/grouped_linear.h"

namespace sextant {

// A weight matrix of each of this rank's experts, one below the other, without bias. In fp8 (`fp8`
// is set) rows and weights are quantised before a product, with scales of each expert; what the
// weight gradient needs is saved in fp8.
struct ExpertLinear {
  Param* weight = nullptr;           // [own experts * out, in]
  const Fp8Operands* fp8 = nullptr;  // null: products of the tensors' own type

  int64_t in() const { return weight->shape[1]; }

  // y of the rows x, which in fp8 are quantised from here on.   x: [rows, in]   y: [rows, out]
  void forward(Stream& stream, Tensor& y, OperandSlots x, const ExpertRows& rows) const;
  // dx of dy, likewise.
  void backward_input(Stream& stream, Tensor& dx, OperandSlots dy, const ExpertRows& rows) const;
  void backward_weight(Stream& stream, OperandSlots dy, OperandSlots x,
                       const Tensor& offsets) const;
  // For recomputation, in fp8 only: quantises x with the amax that forward found.
  void requantize(Stream& stream, OperandSlots x, const ExpertRows& rows) const;
};

}  // namespace sextant
