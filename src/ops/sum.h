#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Sums in f64 over fixed blocks in fixed order. out: [1], f64
void sum(Stream& stream, Tensor& out, const Tensor& x, Write write);
void sum_of_squares(Stream& stream, Tensor& out, const Tensor& x, Write write);

}  // namespace sextant
