#pragma once
#include "ops/dispatch.h"

namespace sextant {

// x += residual, unless residual is empty; then y = x / sqrt(mean(x^2) + eps) * weight over the
// last dim. Keeps 1/rms of each row for backward.
//   x, residual, y: [rows, hidden]   weight: [hidden]   inv_rms: [rows]
void rmsnorm(Stream& stream, Tensor& y, Tensor& inv_rms, Tensor& x, const Tensor& residual,
             const Tensor& weight, double eps);

// dx = input gradient + residual, which may be empty or dx itself. dweight is written by write_dw.
void rmsnorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, const Tensor& dy,
                      const Tensor& x, const Tensor& inv_rms, const Tensor& weight,
                      const Tensor& residual, Write write_dw);

}  // namespace sextant
