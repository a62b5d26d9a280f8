#include "ops/update.h"

#include <cmath>

#include "ops/cuda/kernel.h"

namespace sextant::cuda {
namespace {

__global__ void clip_kernel(double* scalars, const double* squares, double limit,
                            const DeviceFault* fault) {
  const double loss_scale = scalars[static_cast<int>(UpdateScalar::LossScale)];
  const double norm = static_cast<float>(sqrt(squares[0]) / loss_scale);
  const double scale = limit / (norm + 1e-6);
  scalars[static_cast<int>(UpdateScalar::GradientScale)] = (limit == 0  ? 1
                                                            : scale < 1 ? scale
                                                                        : 1) /
                                                           loss_scale;
  scalars[static_cast<int>(UpdateScalar::Apply)] = isfinite(norm) && fault->message == 0;
}

__global__ void apply_kernel(double* scalars, const DeviceFault* fault) {
  scalars[static_cast<int>(UpdateScalar::Apply)] = fault->message == 0;
}

}  // namespace

void clip(Stream& stream, Tensor& scalars, const Tensor& squares, double limit) {
  launch(stream, "clip", clip_kernel, 1, 1, scalars.data<double>(), squares.data<double>(), limit,
         fault_of(stream));
}

void apply_unless_bad_data(Stream& stream, Tensor& scalars) {
  launch(stream, "apply_unless_bad_data", apply_kernel, 1, 1, scalars.data<double>(),
         fault_of(stream));
}

}  // namespace sextant::cuda
