#pragma once
#include "ops/grouped_linear.h"

namespace sextant::cuda {

// The three products of grouped_linear.h.
enum class GroupedProduct { Forward, InputGradient, WeightGradient };

// A grouped product on the tensor cores of Hopper (compute capability 9.0), of operands in bf16 or
// f16. False, and nothing done, on another GPU, in other types, and where the copy engine cannot
// address a tensor: its rows must be multiples of 16 bytes, at addresses that are such, too. What
// is done depends on widths and types alone, not on the number of rows or on where they begin.
//   Forward         c = y, a = x, b = weight
//   InputGradient   c = dx, a = dy, b = weight
//   WeightGradient  c = dweight, a = dy, b = x
bool grouped_hopper(Stream& stream, const char* op, GroupedProduct product, Tensor& c,
                    const Tensor& a, const Tensor& b, const Tensor& offsets, Write write);

}  // namespace sextant::cuda
