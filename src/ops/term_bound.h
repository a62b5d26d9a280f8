#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Adds to bound[0] an upper bound of the sum of absolute terms of the gradient dy^T * x: the
// largest column sum of |dy| times the largest |x|, times `factor`. An empty x counts as 1. The
// rounding error of the gradient is about machine epsilon times this bound.
//   bound: [1], f64   dy: [rows, n]   x: [rows, k]
void term_bound(Stream& stream, Tensor& bound, const Tensor& dy, const Tensor& x, double factor);

}  // namespace sextant
