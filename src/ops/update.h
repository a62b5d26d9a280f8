#pragma once
#include <array>
#include <cstdint>

#include "ops/dispatch.h"

namespace sextant {

// What an update of weights reads that changes from step to step. It lies in device memory, a
// tensor of f64 [kUpdateScalars], so that a recorded step can be replayed.
//   LearningRate
//   Correction1, Correction2   1 - beta^step of Adam's moments; SGD does not read them
//   GradientScale              what gradients are multiplied with: clipping
//   Apply                      0: nothing is updated
enum class UpdateScalar : uint8_t {
  LearningRate,
  Correction1,
  Correction2,
  GradientScale,
  Apply,
};
inline constexpr int64_t kUpdateScalars = 5;
using UpdateScalars = std::array<double, kUpdateScalars>;  // on the host, by UpdateScalar

// From the sum of squares of all gradients: GradientScale = min(1, limit / (norm + 1e-6)), or 1
// when the limit is 0, and Apply = whether the norm is finite and the stream has met no bad data
// (Stream::report). The norm is rounded to f32.
//   scalars: [kUpdateScalars], f64   squares: [1], f64
void clip(Stream& stream, Tensor& scalars, const Tensor& squares, double limit);

// Apply = whether the stream has met no bad data. For an update whose scale the host has chosen.
void apply_unless_bad_data(Stream& stream, Tensor& scalars);

}  // namespace sextant
