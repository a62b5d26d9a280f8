#pragma once
#include "ops/dispatch.h"

namespace sextant {

// y = silu(gate) * up.   gate_up: [rows, 2 * ffn], gate first   y: [rows, ffn]
void swiglu(Stream& stream, Tensor& y, const Tensor& gate_up);
// dgate_up may be the same tensor as gate_up.
void swiglu_backward(Stream& stream, Tensor& dgate_up, const Tensor& dy, const Tensor& gate_up);

}  // namespace sextant
