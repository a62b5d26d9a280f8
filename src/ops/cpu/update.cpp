#include "ops/update.h"

#include <algorithm>
#include <cmath>

namespace sextant::cpu {

void clip(Stream& stream, Tensor& scalars, const Tensor& squares, double limit) {
  double* to = scalars.data<double>();
  const double norm = static_cast<float>(std::sqrt(squares.data<double>()[0]));
  to[static_cast<size_t>(UpdateScalar::GradientScale)] =
      limit == 0 ? 1 : std::min(1.0, limit / (norm + 1e-6));
  to[static_cast<size_t>(UpdateScalar::Apply)] = std::isfinite(norm) && !stream.has_data_fault();
}

void apply_unless_bad_data(Stream& stream, Tensor& scalars) {
  scalars.data<double>()[static_cast<size_t>(UpdateScalar::Apply)] = !stream.has_data_fault();
}

}  // namespace sextant::cpu
