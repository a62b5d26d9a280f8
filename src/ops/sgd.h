#pragma once
#include <span>

#include "ops/update.h"

namespace sextant {

// A slice of a parameter with its state, of one shape and type; an empty velocity means momentum 0.
struct SgdPart {
  Tensor weight, velocity, gradient;
  double weight_decay = 0;  // decoupled
};

// velocity = momentum * velocity + scaled gradient; weight -= lr * (velocity + decay * weight), for
// all parts.   scalars: see UpdateScalar
void sgd(Stream& stream, std::span<const SgdPart> parts, const Tensor& scalars, double momentum);

}  // namespace sextant
