#pragma once
#include <span>

#include "ops/dispatch.h"

namespace sextant {

// Elements per block; the sums of blocks are then added in order.
inline constexpr int64_t kSumBlock = 16384;

// Sums in f64 over fixed blocks in fixed order. out: [1], f64
void sum(Stream& stream, Tensor& out, const Tensor& x, Write write);
// Sum over all tensors: of each tensor first, then of these sums in order. 0 without tensors.
void sum_of_squares(Stream& stream, Tensor& out, std::span<const Tensor> x);

}  // namespace sextant
