#pragma once
#include <span>

#include "ops/update.h"

namespace sextant {

// A slice of a parameter with its state, all of one shape; an empty velocity means momentum 0. A
// narrow weight is its master rounded; types as in AdamWPart, but for the velocity, which is of the
// type of the computation.
struct SgdPart {
  Tensor weight, velocity, gradient;
  double weight_decay = 0;  // decoupled
  Tensor master = {};       // empty: the weight is its own master
};

// velocity = momentum * velocity + scaled gradient; weight -= lr * (velocity + decay * weight), for
// all parts.   scalars: see UpdateScalar
void sgd(Stream& stream, std::span<const SgdPart> parts, const Tensor& scalars, double momentum);

}  // namespace sextant
