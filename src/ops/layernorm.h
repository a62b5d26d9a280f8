#pragma once
#include "ops/dispatch.h"

namespace sextant {

// x += residual, unless residual is empty; then y = (x - mean) / sqrt(variance + eps) * weight +
// bias over the last dim.
//   x, residual, y: [rows, hidden]   weight, bias: [hidden]   mean, inv_std: [rows], for backward
void layernorm(Stream& stream, Tensor& y, Tensor& mean, Tensor& inv_std, Tensor& x,
               const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps);

// dx = input gradient + residual, which may be empty or dx itself. dweight and dbias are sums over
// rows in fixed blocks, written by write_dw.
void layernorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, Tensor& dbias,
                        const Tensor& dy, const Tensor& x, const Tensor& mean,
                        const Tensor& inv_std, const Tensor& weight, const Tensor& residual,
                        Write write_dw);

}  // namespace sextant
