#pragma once
#include "ops/dispatch.h"

namespace sextant {

// x += residual, unless that is empty; then y = (x - mean) / sqrt(variance + eps) * weight + bias
// over the last dim.
//   x, residual, y: [rows, hidden]   weight, bias: [hidden]   mean, inv_std: [rows], for backward
void layernorm(Stream& stream, Tensor& y, Tensor& mean, Tensor& inv_std, Tensor& x,
               const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps);

// dx = residual + gradient of x, where an empty residual means none and dx may be the residual
// itself; dweight and dbias, sums over the rows in fixed blocks, by write_dw.
void layernorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, Tensor& dbias,
                        const Tensor& dy, const Tensor& x, const Tensor& mean,
                        const Tensor& inv_std, const Tensor& weight, const Tensor& residual,
                        Write write_dw);

}  // namespace sextant
