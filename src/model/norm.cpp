#include "model/norm.h"

#include <utility>
#include <vector>

#include "ops/layernorm.h"
#include "ops/rmsnorm.h"
#include "tensor/convert.h"
#include "tensor/copy.h"

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

// On the host: a mistaken rank takes no more memory than the others.
void Norm::round_statistics(Stream& stream, Slots saved) const {
  for (Tensor* tensor : {&saved.mean, &saved.inverse}) {
    if (!*tensor) continue;
    std::vector<float> values(static_cast<size_t>(tensor->elements()));
    copy_floats_to_host(stream, values, *tensor);
    for (float& value : values) value = widen(round_nearest<bf16>(value));
    copy_floats_from_host(stream, *tensor, values);
  }
}

Tensor Norm::backward(Stream& stream, const Tensor& dy, const Tensor& residual, Slots saved) const {
  if (rounds_statistics) round_statistics(stream, saved);
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
