#include "ops/update.h"

#include <algorithm>
#include <cmath>

namespace sextant::cpu {

void clip(Stream& stream, Tensor& scalars, const Tensor& squares, double limit) {
  double* to = scalars.data<double>();
  const double loss_scale = to[static_cast<size_t>(UpdateScalar::LossScale)];
  const double norm = static_cast<float>(std::sqrt(squares.data<double>()[0]) / loss_scale);
  to[static_cast<size_t>(UpdateScalar::GradientScale)] =
      (limit == 0 ? 1 : std::min(1.0, limit / (norm + 1e-6))) / loss_scale;
  to[static_cast<size_t>(UpdateScalar::Apply)] = std::isfinite(norm) && !stream.has_data_fault();
}

void apply_unless_bad_data(Stream& stream, Tensor& scalars) {
  scalars.data<double>()[static_cast<size_t>(UpdateScalar::Apply)] = !stream.has_data_fault();
}

}  // namespace sextant::cpu
