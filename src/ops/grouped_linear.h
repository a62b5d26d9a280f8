#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Grouped GEMM: a linear layer of several experts, each with its own rows. Rows offsets[e] ...
// offsets[e + 1] - 1 belong to expert e; the offsets are in device memory, so that no host needs to
// know them. Rows from the last offset on are left alone. On the CPU each element has the bits of
// `linear`; on any device they do not depend on other rows.
//   offsets: i32 [experts + 1], ascending from 0   weight: [experts * out, in]
//   x: [rows, in]   y: [rows, out]
void grouped_linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets);
// Input gradient: dx = dy * weight of the row's expert.   dy: [rows, out]   dx: [rows, in]
void grouped_linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy,
                                   const Tensor& weight, const Tensor& offsets);
// Weight gradient: dweight of expert e = dy^T * x over its rows; zero for an expert without rows.
void grouped_linear_backward_weight(Stream& stream, Tensor& dweight, const Tensor& dy,
                                    const Tensor& x, const Tensor& offsets, Write write);

}  // namespace sextant
