#pragma once
#include <span>

#include "parallel/param.h"
#include "tensor/stream.h"

namespace sextant {

// sqrt of the sum of squares of all gradients, each parameter summed in fixed blocks in f64 and the
// parameters in order. `scratch` is a [1] tensor of f64.
double gradient_norm(Stream& stream, std::span<const Param> params, Tensor& scratch);

// What to multiply gradients of this norm with so that it is at most `limit`; 1 when limit is 0.
double clip_scale(double norm, double limit);

}  // namespace sextant
