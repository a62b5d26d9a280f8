#pragma once
#include <span>

#include "ops/dispatch.h"

namespace sextant {

// Elements that are summed together; the sums of blocks are then added in order.
inline constexpr int64_t kSumBlock = 16384;

// Sums in f64 over fixed blocks in fixed order. out: [1], f64
void sum(Stream& stream, Tensor& out, const Tensor& x, Write write);
// Of all tensors: each summed, then the sums in order. None give 0.
void sum_of_squares(Stream& stream, Tensor& out, std::span<const Tensor> x);

}  // namespace sextant
