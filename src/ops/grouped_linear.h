#pragma once
#include "ops/quantize.h"

namespace sextant {

// The largest absolute values of the blocks of fp8 operands, as they lie in memory, of each expert
// for itself.
//   rows in the order of experts: those of grouped_amax, or of tiles of 1 x 128
//   weights: those of blocks that begin at each expert
struct GroupedScales {
  Tensor amax_a = {}, amax_b = {};
  ScaleBlock block_a = {}, block_b = {};
};

// Grouped GEMM: a linear layer of several experts, each with its own rows. Rows offsets[e] ...
// offsets[e + 1] - 1 belong to expert e; the offsets are in device memory, so that no host needs to
// know them. Rows from the last offset on are left alone. On the CPU each element has the bits of
// `linear`; on any device they do not depend on other rows. Operands in fp8 need scales, and give
// what matmul gives of an expert's rows; on the CPU.
//   offsets: i32 [experts + 1], ascending from 0   weight: [experts * out, in]
//   x: [rows, in]   y: [rows, out]
void grouped_linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets, const GroupedScales& scales = {});
// Input gradient: dx = dy * weight of the row's expert.   dy: [rows, out]   dx: [rows, in]
void grouped_linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy,
                                   const Tensor& weight, const Tensor& offsets,
                                   const GroupedScales& scales = {});
// Weight gradient: dweight of expert e = dy^T * x over its rows; zero for an expert without rows.
void grouped_linear_backward_weight(Stream& stream, Tensor& dweight, const Tensor& dy,
                                    const Tensor& x, const Tensor& offsets, Write write,
                                    const GroupedScales& scales = {});

}  // namespace sextant
