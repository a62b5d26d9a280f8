#include "model/norm.h"

#include <utility>
#include <vector>

#include "ops/layernorm.h"
#include "ops/rmsnorm.h"
#include "tensor/copy.h"

namespace sextant {

Tensor Norm::forward(Stream& stream, Hidden& x, Slots saved) const {
  Tensor residual;
  if (x.update) {
    residual = std::exchange(x.residual, x.update);
    x.update = Tensor();
  }
  Tensor y = allocate_activation(stream, x.residual, x.residual.shape());
  saved.x = x.residual;
  saved.inverse = allocate_activation(stream, statistics, {saved.x.rows()});
  if (bias != nullptr) saved.mean = allocate_activation(stream, statistics, {saved.x.rows()});
  compute(stream, y, residual, saved);
  return y;
}

// Writes the same statistics again.
Tensor Norm::recompute(Stream& stream, Slots saved) const {
  Tensor y = allocate_activation(stream, saved.x, saved.x.shape());
  compute(stream, y, {}, saved);
  return y;
}

void Norm::compute(Stream& stream, Tensor& y, const Tensor& residual, Slots saved) const {
  if (bias == nullptr)
    rmsnorm(stream, y, saved.inverse, saved.x, residual, weight->value, eps);
  else
    layernorm(stream, y, saved.mean, saved.inverse, saved.x, residual, weight->value, bias->value,
              eps);
  if (watch != nullptr && watch->is_rounded()) round(stream, y, saved);
}

// The bug of Statistics: y is computed again with rounded statistics.
void Norm::round(Stream& stream, Tensor& y, Slots saved) const {
  const auto on_host = [&](const Tensor& tensor, size_t elements) {
    std::vector<float> values(elements, 0);
    if (tensor) copy_floats_to_host(stream, values, tensor);
    return values;
  };
  watch->round(stream, saved.mean);
  watch->round(stream, saved.inverse);
  const auto rows = static_cast<size_t>(y.rows()), columns = static_cast<size_t>(y.dim(-1));
  const std::vector<float> mean = on_host(saved.mean, rows), inverse = on_host(saved.inverse, rows),
                           scale = on_host(weight->value, columns),
                           shift = on_host(bias == nullptr ? Tensor() : bias->value, columns);
  std::vector<float> values = on_host(saved.x, rows * columns);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (values[i] - mean[i / columns]) * inverse[i / columns] * scale[i % columns] +
                shift[i % columns];
  copy_floats_from_host(stream, y, values);
}

Tensor Norm::backward(Stream& stream, const Tensor& dy, const Tensor& residual, Slots saved) const {
  if (watch != nullptr) {
    watch->read(stream, weight->name, saved.mean);
    watch->read(stream, weight->name, saved.inverse);
  }
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
