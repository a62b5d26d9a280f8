#pragma once
#include <span>

#include "base/host_device.h"
#include "ops/update.h"

namespace sextant {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  uint64_t seed = 0;  // of stochastic rounding
};

// Where the elements of a slice lie in the whole parameter: element i at
//   first + (offset + i) / width * stride + (offset + i) % width
// The slice is part of some columns of consecutive rows, `width` of `stride` columns.
struct ElementIndex {
  int64_t first = 0, offset = 0, width = 1, stride = 1;

  SXT_HOST_DEVICE int64_t operator()(int64_t i) const {
    return first + (offset + i) / width * stride + (offset + i) % width;
  }
  // How many elements from i on are neighbours in the whole.
  int64_t run(int64_t i) const {
    return width == stride ? INT64_MAX : width - (offset + i) % width;
  }
};

// A slice of a parameter with its gradient and optimizer state, all of one shape. The update is
// computed in f32 (f64 if the weight is f64).
//   weight                        f32, f64, bf16 or f16
//   first_moment, second_moment   the type of the computation, or bf16, rounded stochastically
//   gradient                      the weight's type or the type of the computation
//   master                        f32: a narrow weight is its master rounded to nearest. Empty: the
//                                 weight is its own master; if narrow, it is rounded stochastically
struct AdamWPart {
  Tensor weight, first_moment, second_moment, gradient;
  double weight_decay = 0;
  Tensor master = {};
  // Stochastic rounding draws by (seed, name of the parameter, its element, update), so that every
  // layout rounds alike.
  uint64_t name = 0;  // stable_hash of the parameter's name
  ElementIndex index = {};
};

// weight -= lr * weight_decay * weight, then the Adam step with the scaled gradient, for all parts.
//   scalars: see UpdateScalar
void adamw(Stream& stream, std::span<const AdamWPart> parts, const Tensor& scalars,
           const AdamWSettings& settings);

}  // namespace sextant
