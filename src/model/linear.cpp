#include "model/linear.h"

#include "ops/add.h"
#include "ops/term_bound.h"

namespace sextant {

Tensor Linear::forward(Stream& stream, const Tensor& x, Epilogue epilogue) const {
  Tensor y = activation(stream, x, {x.rows(), out()});
  if (bias != nullptr) epilogue.bias = bias->value;
  linear(stream, y, x, weight->value, epilogue);
  return y;
}

Tensor Linear::backward_input(Stream& stream, const Tensor& dy, const Epilogue& epilogue) const {
  Tensor dx = activation(stream, dy, {dy.rows(), in()});
  linear_backward_input(stream, dx, dy, weight->value, epilogue);
  return dx;
}

Tensor Linear::forward_row(Stream& stream, const Tensor& x, const Tensor& residual,
                           const TensorRanks& ranks) const {
  if (ranks.is_alone()) return forward(stream, x, {.residual = residual});
  const Linear own{weight, ranks.rank() == 0 ? bias : nullptr};
  Tensor y = ranks.leave(stream, own.forward(stream, x));
  if (residual) add(stream, y, y, residual);
  return y;
}

void Linear::backward_weight(Stream& stream, const Tensor& dy, const Tensor& x) const {
  Tensor none;
  if (weight->terms) term_bound(stream, weight->terms, dy, x, 1);
  if (bias != nullptr && bias->terms) term_bound(stream, bias->terms, dy, none, 1);
  if (bias != nullptr) bias->next_write();  // moves with the weight: one call writes both
  linear_backward_weight(stream, weight->grad, bias != nullptr ? bias->grad : none, dy, x,
                         weight->next_write());
}

}  // namespace sextant
