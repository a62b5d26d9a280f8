#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Adds to bound[0] what the absolute terms of a gradient can sum up to at most: for a product
// dy^T * x, the largest column sum of |dy| times the largest |x|, times `factor`. An empty x counts
// as 1. Rounding moves such a gradient by about machine epsilon times this.
//   bound: [1], f64   dy: [rows, n]   x: [rows, k]
void term_bound(Stream& stream, Tensor& bound, const Tensor& dy, const Tensor& x, double factor);

}  // namespace sextant
