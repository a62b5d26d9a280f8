#pragma once
#include "ops/matmul.h"

namespace sextant {

// y = gelu(x), and dx = dy * gelu'(x); the form is Activation::GeluTanh or GeluExact.
void gelu(Stream& stream, Tensor& y, const Tensor& x, Activation form);
void gelu_backward(Stream& stream, Tensor& dx, const Tensor& dy, const Tensor& x, Activation form);

}  // namespace sextant
