#include "model/norm.h"

#include <utility>

#include "ops/layernorm.h"
#include "ops/rmsnorm.h"

namespace sextant {

Tensor Norm::forward(Stream& stream, Hidden& x, Slots saved) const {
  Tensor residual;
  if (x.update) {
    residual = std::exchange(x.residual, x.update);
    x.update = Tensor();
  }
  Tensor& sum = x.residual;
  Tensor y = allocate_activation(stream, sum, sum.shape());
  saved.x = sum;
  saved.inverse = allocate_activation(stream, statistics, {sum.rows()});
  if (bias == nullptr) {
    rmsnorm(stream, y, saved.inverse, sum, residual, weight->value, eps);
  } else {
    saved.mean = allocate_activation(stream, statistics, {sum.rows()});
    layernorm(stream, y, saved.mean, saved.inverse, sum, residual, weight->value, bias->value, eps);
  }
  return y;
}

// Writes the same statistics again.
Tensor Norm::recompute(Stream& stream, Slots saved) const {
  Tensor y = allocate_activation(stream, saved.x, saved.x.shape());
  if (bias == nullptr)
    rmsnorm(stream, y, saved.inverse, saved.x, {}, weight->value, eps);
  else
    layernorm(stream, y, saved.mean, saved.inverse, saved.x, {}, weight->value, bias->value, eps);
  return y;
}

Tensor Norm::backward(Stream& stream, const Tensor& dy, const Tensor& residual, Slots saved) const {
  Tensor dx = allocate_activation(stream, saved.x, saved.x.shape());
  const Write write = weight->next_write();
  if (bias == nullptr) {
    rmsnorm_backward(stream, dx, weight->grad, dy, saved.x, saved.inverse, weight->value, residual,
                     write);
  } else {
    bias->next_write();  // advances with the weight: one call writes both
    layernorm_backward(stream, dx, weight->grad, bias->grad, dy, saved.x, saved.mean, saved.inverse,
                       weight->value, residual, write);
  }
  saved.x = saved.mean = saved.inverse = Tensor();
  return dx;
}

}  // namespace sextant
