#include "model/linear.h"

#include <utility>

namespace sextant {
namespace {

// The epilogue for some rows of the product.
Epilogue slice(Epilogue epilogue, const Range& rows) {
  for (Tensor* tensor : {&epilogue.pre_activation, &epilogue.backward_of})
    if (*tensor) *tensor = tensor->slice(rows);
  return epilogue;
}

Tensor to_fp8(Stream& stream, DType dtype, const Tensor& x, const Tensor& amax) {
  Tensor q = allocate_activation(stream, dtype, x.shape());
  quantize(stream, q, x, amax, {});
  return q;
}

}  // namespace

// Replaces x by its quantised form. One all-reduce agrees on both scales.
Linear::Weight Linear::quantize_with_weight(Stream& stream, OperandSlots x, DType dtype) const {
  if (fp8 == nullptr) return {weight->value, {}};
  const bool is_gathered = is_fp8(weight->value.dtype());  // ZeRO-3 did it
  Tensor both = allocate_activation(stream, DType::F32, {is_gathered ? 1 : 2, 1});
  if (is_gathered) {
    block_amax(stream, both, x.values, {});
    fp8->agree(stream, both);
    x.values = to_fp8(stream, dtype, x.values, both);
    x.amax = both;
    return {weight->value, fp8->is_injected(InjectionKind::WrongScale) ? both : weight->amax};
  }
  Tensor of_x = both.slice(0, 1), of_weight = both.slice(1, 2);
  block_amax(stream, of_x, x.values, {});
  block_amax(stream, of_weight, weight->value, {});
  fp8->agree(stream, both);
  x.values = to_fp8(stream, dtype, x.values, of_x);
  x.amax = of_x;
  Weight out{to_fp8(stream, DType::F8E4M3, weight->value, of_weight), of_weight};
  if (fp8->is_injected(InjectionKind::WrongScale)) out.amax = of_x;
  return out;
}

void Linear::quantize_input(Stream& stream, OperandSlots x) const {
  if (fp8 == nullptr) return;
  x.amax = allocate_activation(stream, DType::F32, {1, 1});
  block_amax(stream, x.amax, x.values, {});
  fp8->agree(stream, x.amax);
  requantize(stream, x);
}

void Linear::requantize(Stream& stream, OperandSlots x) const {
  if (fp8 != nullptr) x.values = to_fp8(stream, DType::F8E4M3, x.values, x.amax);
}

Tensor Linear::forward_column(Stream& stream, OperandSlots x, const TensorRanks& ranks,
                              Epilogue epilogue) const {
  if (bias != nullptr) epilogue.bias = bias->value;
  Tensor y = allocate_activation(stream, x.values, {ranks.all(x.values.rows()), out()});
  const Weight w = quantize_with_weight(stream, x, DType::F8E4M3);
  epilogue.amax_a = x.amax;
  epilogue.amax_b = w.amax;
  ranks.enter(stream, x.values, [&](const Tensor& piece, const Range& rows) {
    Tensor part = y.slice(rows);
    linear(stream, part, piece, w.values, slice(epilogue, rows));
  });
  return y;
}

Tensor Linear::backward_input_column(Stream& stream, OperandSlots dy,
                                     const TensorRanks& ranks) const {
  const DType dtype = dy.values.dtype();
  const Weight w = quantize_with_weight(stream, dy, DType::F8E5M2);
  return ranks.leave(stream, dtype, {dy.values.rows(), in()}, [&](Tensor& dx, const Range& rows) {
    linear_backward_input(stream, dx, dy.values.slice(rows), w.values,
                          {.amax_a = dy.amax, .amax_b = w.amax});
  });
}

void Linear::backward_weight_column(Stream& stream, OperandSlots dy, OperandSlots x,
                                    const TensorRanks& ranks) const {
  ranks.enter(stream, x.values, [&](const Tensor& piece, const Range& rows) {
    add_weight_gradient(stream, dy.values.slice(rows), piece,
                        {.amax_a = dy.amax, .amax_b = x.amax});
  });
}

Tensor Linear::forward_row(Stream& stream, OperandSlots x, const TensorRanks& ranks) const {
  Epilogue epilogue;
  if (bias != nullptr && (ranks.rank() == 0 || ranks.is_injected(InjectionKind::BiasEverywhere)))
    epilogue.bias = bias->value;
  const DType dtype = x.values.dtype();
  const Weight w = quantize_with_weight(stream, x, DType::F8E4M3);
  epilogue.amax_a = x.amax;
  epilogue.amax_b = w.amax;
  return ranks.leave(stream, dtype, {x.values.rows(), out()}, [&](Tensor& term, const Range& rows) {
    linear(stream, term, x.values.slice(rows), w.values, epilogue);
  });
}

Tensor Linear::backward_input_row(Stream& stream, OperandSlots all_dy, Tensor dy,
                                  const TensorRanks& ranks, const Epilogue& epilogue) const {
  Tensor dx = allocate_activation(stream, dy, {ranks.all(dy.rows()), in()});
  const Weight w = quantize_with_weight(stream, {dy, all_dy.amax}, DType::F8E5M2);
  Epilogue scaled = epilogue;
  scaled.amax_a = all_dy.amax;
  scaled.amax_b = w.amax;
  all_dy.values = ranks.enter(stream, dy, [&](const Tensor& piece, const Range& rows) {
    Tensor part = dx.slice(rows);
    linear_backward_input(stream, part, piece, w.values, slice(scaled, rows));
  });
  dy = Tensor();  // freed before the caller continues
  return dx;
}

void Linear::backward_weight(Stream& stream, OperandSlots dy, OperandSlots x) const {
  add_weight_gradient(stream, dy.values, x.values, {.amax_a = dy.amax, .amax_b = x.amax});
}

void Linear::add_weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x,
                                 const Epilogue& scales) const {
  Tensor none;
  if (bias != nullptr) bias->next_write();  // advances with the weight: one call writes both
  linear_backward_weight(stream, weight->grad, bias != nullptr ? bias->grad : none, dy, x,
                         weight->next_write(), scales);
}

}  // namespace sextant
