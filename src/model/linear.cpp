#include "model/linear.h"

namespace sextant {
namespace {

// The epilogue for some rows of the product.
Epilogue slice(Epilogue epilogue, const Range& rows) {
  for (Tensor* tensor : {&epilogue.pre_activation, &epilogue.backward_of})
    if (*tensor) *tensor = tensor->slice(rows);
  return epilogue;
}

}  // namespace

Tensor Linear::forward_column(Stream& stream, const Tensor& x, const TensorRanks& ranks,
                              Epilogue epilogue) const {
  if (bias != nullptr) epilogue.bias = bias->value;
  Tensor y = allocate_activation(stream, x, {ranks.all(x.rows()), out()});
  ranks.enter(stream, x, [&](const Tensor& piece, const Range& rows) {
    Tensor part = y.slice(rows);
    linear(stream, part, piece, weight->value, slice(epilogue, rows));
  });
  return y;
}

Tensor Linear::backward_input_column(Stream& stream, const Tensor& dy,
                                     const TensorRanks& ranks) const {
  return ranks.leave(stream, dy.dtype(), {dy.rows(), in()}, [&](Tensor& dx, const Range& rows) {
    linear_backward_input(stream, dx, dy.slice(rows), weight->value, {});
  });
}

void Linear::backward_weight_column(Stream& stream, const Tensor& dy, const Tensor& x,
                                    const TensorRanks& ranks) const {
  ranks.enter(stream, x, [&](const Tensor& piece, const Range& rows) {
    backward_weight(stream, dy.slice(rows), piece);
  });
}

Tensor Linear::forward_row(Stream& stream, const Tensor& x, const TensorRanks& ranks) const {
  Epilogue epilogue;
  if (bias != nullptr && (ranks.rank() == 0 || ranks.is_injected(InjectionKind::BiasEverywhere)))
    epilogue.bias = bias->value;
  return ranks.leave(stream, x.dtype(), {x.rows(), out()}, [&](Tensor& term, const Range& rows) {
    linear(stream, term, x.slice(rows), weight->value, epilogue);
  });
}

Tensor Linear::backward_input_row(Stream& stream, Tensor& all_dy, Tensor dy,
                                  const TensorRanks& ranks, const Epilogue& epilogue) const {
  Tensor dx = allocate_activation(stream, dy, {ranks.all(dy.rows()), in()});
  all_dy = ranks.enter(stream, dy, [&](const Tensor& piece, const Range& rows) {
    Tensor part = dx.slice(rows);
    linear_backward_input(stream, part, piece, weight->value, slice(epilogue, rows));
  });
  dy = Tensor();  // freed before the caller continues
  return dx;
}

void Linear::backward_weight(Stream& stream, const Tensor& dy, const Tensor& x) const {
  Tensor none;
  if (bias != nullptr) bias->next_write();  // advances with the weight: one call writes both
  linear_backward_weight(stream, weight->grad, bias != nullptr ? bias->grad : none, dy, x,
                         weight->next_write());
}

}  // namespace sextant
