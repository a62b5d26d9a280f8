#pragma once
#include <array>
#include <cstdint>

#include "ops/dispatch.h"

namespace sextant {

// Optimizer scalars that change from step to step, in a device tensor [kUpdateScalars], f64, so
// that a recorded step can be replayed.
//   LearningRate
//   Correction1, Correction2   1 - beta^step of Adam's moments; SGD does not read them
//   GradientScale              factor of gradients: the clip coefficient over the loss scale
//   Apply                      0: the update is skipped
//   LossScale                  factor of the loss, and so of the gradients that clip() reads
//   Step                       number of the update, for stochastic rounding
enum class UpdateScalar : uint8_t {
  LearningRate,
  Correction1,
  Correction2,
  GradientScale,
  Apply,
  LossScale,
  Step,
};
inline constexpr int64_t kUpdateScalars = 7;
using UpdateScalars = std::array<double, kUpdateScalars>;  // on the host, by UpdateScalar

// Sets GradientScale = min(1, limit / (norm + 1e-6)) / LossScale, or 1 / LossScale when the limit
// is 0, and Apply = whether the norm is finite and the stream has no bad data (Stream::report). The
// norm is the square root of `squares` over LossScale, rounded to f32.
//   scalars: [kUpdateScalars], f64   squares: [1], f64
void clip(Stream& stream, Tensor& scalars, const Tensor& squares, double limit);

// Apply = whether the stream has no bad data. For updates whose GradientScale the host sets.
void apply_unless_bad_data(Stream& stream, Tensor& scalars);

}  // namespace sextant
