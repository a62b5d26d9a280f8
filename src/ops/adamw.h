#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Settings of one update; the corrections are 1 - beta^step.
struct AdamWStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double correction1 = 1, correction2 = 1;
  double gradient_scale = 1;  // clipping
};

// weight -= lr * weight_decay * weight, then the Adam step with the scaled gradient. All of one
// shape and type.
void adamw(Stream& stream, Tensor& weight, Tensor& first_moment, Tensor& second_moment,
           const Tensor& gradient, const AdamWStep& step);

}  // namespace sextant
