#include "model/expert_linear.h"

namespace sextant {
namespace {

GroupedScales scales_of(const Operand& a, const Operand& b) {
  return {a.amax, b.amax, a.block, b.block};
}

}  // namespace

void ExpertLinear::forward(Stream& stream, Tensor& y, OperandSlots x,
                           const ExpertRows& rows) const {
  if (fp8 == nullptr) return grouped_linear(stream, y, x.values, weight->value, rows.offsets);
  const Fp8Operands::Pair q = fp8->quantize_rows(stream, x, OperandKind::Input, *weight, rows);
  grouped_linear(stream, y, q.x.values, q.weight.values, rows.offsets, scales_of(q.x, q.weight));
}

void ExpertLinear::backward_input(Stream& stream, Tensor& dx, OperandSlots dy,
                                  const ExpertRows& rows) const {
  if (fp8 == nullptr)
    return grouped_linear_backward_input(stream, dx, dy.values, weight->value, rows.offsets);
  const Fp8Operands::Pair q = fp8->quantize_rows(stream, dy, OperandKind::Gradient, *weight, rows);
  grouped_linear_backward_input(stream, dx, q.x.values, q.weight.values, rows.offsets,
                                scales_of(q.x, q.weight));
}

void ExpertLinear::backward_weight(Stream& stream, OperandSlots dy, OperandSlots x,
                                   const Tensor& offsets) const {
  GroupedScales scales;
  if (fp8 != nullptr)
    scales = scales_of(fp8->rows_of_weight_gradient(dy), fp8->rows_of_weight_gradient(x));
  grouped_linear_backward_weight(stream, weight->grad, dy.values, x.values, offsets,
                                 weight->next_write(), scales);
}

void ExpertLinear::requantize(Stream& stream, OperandSlots x, const ExpertRows& rows) const {
  if (fp8 != nullptr) fp8->requantize_rows(stream, x, rows);
}

}  // namespace sextant
