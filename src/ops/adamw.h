#pragma once
#include <span>

#include "ops/update.h"

namespace sextant {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};

// A slice of a parameter with its gradient and moments, all of one shape and type.
struct AdamWPart {
  Tensor weight, first_moment, second_moment, gradient;
  double weight_decay = 0;
};

// weight -= lr * weight_decay * weight, then the Adam step with the scaled gradient, for all parts.
//   scalars: see UpdateScalar
void adamw(Stream& stream, std::span<const AdamWPart> parts, const Tensor& scalars,
           const AdamWSettings& settings);

}  // namespace sextant
