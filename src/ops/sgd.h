#pragma once
#include "ops/dispatch.h"

namespace sextant {

struct SgdStep {
  double lr = 0, momentum = 0, weight_decay = 0;  // decay is decoupled
  double gradient_scale = 1;
};

// velocity = momentum * velocity + scaled gradient; weight -= lr * (velocity + decay * weight).
// An empty velocity means momentum 0.
void sgd(Stream& stream, Tensor& weight, Tensor& velocity, const Tensor& gradient,
         const SgdStep& step);

}  // namespace sextant
