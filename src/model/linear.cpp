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

Epilogue scaled(Epilogue epilogue, const Operand& a, const Operand& b) {
  epilogue.amax_a = a.amax;
  epilogue.amax_b = b.amax;
  epilogue.block_a = a.block;
  epilogue.block_b = b.block;
  return epilogue;
}

// Where rows are gathered, scales that are rows too. The values follow in pieces.
void gather_scales(Stream& stream, Operand& x, const TensorRanks& ranks) {
  if (x.block.rows > 0) x.amax = ranks.enter(stream, x.amax);
}

// Rows of each rank in a gathered tensor; 0: it is not gathered.
int64_t part_rows(const TensorRanks& ranks, int64_t rows) {
  return ranks.is_sequence_parallel() ? rows / ranks.size() : 0;
}

}  // namespace

Fp8Operands::Pair Linear::quantize(Stream& stream, OperandSlots x, OperandKind kind,
                                   int64_t part_rows) const {
  if (fp8 == nullptr) return {{x.values, {}}, {weight->value, {}}};
  if (bias == nullptr || kind != OperandKind::Gradient) x.sums = nullptr;
  return fp8->quantize(stream, x, kind, *weight, part_rows);
}

Operand Linear::for_weight_gradient(const OperandSlots& x, int64_t part_rows) const {
  if (fp8 == nullptr) return {x.values, {}};
  return fp8->of_weight_gradient(x, part_rows);
}

void Linear::quantize_input(Stream& stream, OperandSlots x) const {
  if (fp8 != nullptr) fp8->quantize_input(stream, x, *weight);
}

void Linear::requantize(Stream& stream, OperandSlots x) const {
  if (fp8 != nullptr) fp8->requantize(stream, x);
}

Tensor Linear::forward_column(Stream& stream, OperandSlots x, const TensorRanks& ranks,
                              Epilogue epilogue) const {
  if (bias != nullptr) epilogue.bias = bias->value;
  Tensor y = allocate_activation(stream, x.values, {ranks.all(x.values.rows()), out()});
  Fp8Operands::Pair q = quantize(stream, x, OperandKind::Input);
  gather_scales(stream, q.x, ranks);
  const Tensor own = std::exchange(q.x.values, Tensor());
  ranks.enter(stream, own, [&](const Tensor& piece, const Range& rows) {
    Tensor part = y.slice(rows);
    const Operand a = q.x.rows(piece, rows);
    linear(stream, part, piece, q.weight.values, scaled(slice(epilogue, rows), a, q.weight));
  });
  return y;
}

Tensor Linear::backward_input_column(Stream& stream, OperandSlots dy,
                                     const TensorRanks& ranks) const {
  const DType dtype = dy.values.dtype();
  const Shape shape{dy.values.rows(), in()};
  const Fp8Operands::Pair q =
      quantize(stream, dy, OperandKind::Gradient, part_rows(ranks, dy.values.rows()));
  return ranks.leave(stream, dtype, shape, [&](Tensor& dx, const Range& rows) {
    const Operand a = q.x.rows(rows);
    linear_backward_input(stream, dx, a.values, q.weight.values, scaled({}, a, q.weight));
  });
}

void Linear::backward_weight_column(Stream& stream, OperandSlots dy, OperandSlots x,
                                    const TensorRanks& ranks) const {
  const Operand all_dy = for_weight_gradient(dy, part_rows(ranks, dy.values.rows()));
  Operand all_x = for_weight_gradient(x, all_dy.block.part_rows);
  if (!ranks.is_sequence_parallel()) return add_weight_gradient(stream, all_dy, all_x);
  gather_scales(stream, all_x, ranks);
  ranks.enter(stream, x.values, [&](const Tensor& piece, const Range& rows) {
    add_weight_gradient(stream, all_dy.rows(rows), all_x.rows(piece, rows));
  });
}

Tensor Linear::forward_row(Stream& stream, OperandSlots x, const TensorRanks& ranks) const {
  Epilogue epilogue;
  if (bias != nullptr && (ranks.rank() == 0 || ranks.is_injected(InjectionKind::BiasEverywhere)))
    epilogue.bias = bias->value;
  const DType dtype = x.values.dtype();
  const Shape shape{x.values.rows(), out()};
  const Fp8Operands::Pair q = quantize(stream, x, OperandKind::Input);
  return ranks.leave(stream, dtype, shape, [&](Tensor& term, const Range& rows) {
    const Operand a = q.x.rows(rows);
    linear(stream, term, a.values, q.weight.values, scaled(epilogue, a, q.weight));
  });
}

Tensor Linear::backward_input_row(Stream& stream, OperandSlots all_dy, Tensor dy,
                                  const TensorRanks& ranks, const Epilogue& epilogue) const {
  Tensor dx = allocate_activation(stream, dy, {ranks.all(dy.rows()), in()});
  if (fp8 != nullptr && fp8->turns(dy)) {
    OperandSlots own{dy, all_dy.amax};
    own.sums = all_dy.sums;
    const Fp8Operands::Pair q = quantize(stream, own, OperandKind::Gradient);
    all_dy.values = std::exchange(dy, Tensor());
    linear_backward_input(stream, dx, q.x.values, q.weight.values, scaled(epilogue, q.x, q.weight));
    return dx;
  }
  const bool has_blocks = fp8 != nullptr && fp8->has_blocks();
  Fp8Operands::Pair q;
  if (has_blocks) {
    q.weight = fp8->weight(stream, *weight);
  } else {
    q = quantize(stream, {dy, all_dy.amax}, OperandKind::Gradient);
    q.x.values = Tensor();
  }
  all_dy.values = ranks.enter(stream, dy, [&](const Tensor& piece, const Range& rows) {
    Tensor part = dx.slice(rows);
    const Operand a = has_blocks ? fp8->for_product(stream, piece) : q.x.rows(piece, rows);
    linear_backward_input(stream, part, a.values, q.weight.values,
                          scaled(slice(epilogue, rows), a, q.weight));
  });
  dy = Tensor();  // freed before the caller continues
  if (has_blocks) fp8->for_weight_gradient(stream, all_dy);
  return dx;
}

void Linear::backward_weight(Stream& stream, OperandSlots dy, OperandSlots x) const {
  add_weight_gradient(stream, for_weight_gradient(dy), for_weight_gradient(x));
}

void Linear::add_weight_gradient(Stream& stream, const Operand& dy, const Operand& x) const {
  Tensor none;
  if (bias != nullptr) bias->next_write();  // advances with the weight: one call writes both
  const auto form = [](const Operand& operand) {
    return operand.is_turned ? Transpose::Yes : Transpose::No;
  };
  const bool has_sums = bias != nullptr && dy.is_turned;
  const Write write = weight->next_write();
  linear_backward_weight(stream, weight->grad, bias != nullptr && !has_sums ? bias->grad : none,
                         dy.values, x.values, write, scaled({}, dy, x), form(dy), form(x));
  if (has_sums) sum_turned_tiles(stream, bias->grad, dy.sums, write);
}

}  // namespace sextant
