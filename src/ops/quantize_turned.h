#pragma once
#include "ops/quantize.h"

namespace sextant {

// An operand of fp8 products on a GPU in two forms, from one reading of x: its rows for the product
// with the weight, and transposed for the weight gradient, which sums over rows. Sizes of x are
// multiples of kTurnedMultiple.
inline constexpr int64_t kTurnedMultiple = 16;

// Delayed scaling in the same reading (delayed_amax.h): amax = used, and found becomes the largest
// absolute value of x if that is larger, NaN above all.   used, found: [1, 1], f32; or both empty
struct DelayedAmax {
  Tensor used, found;
};

// With one scale each: what quantize gives, and its transpose. An empty q is skipped.
//   q: [rows, columns], fp8   turned: [columns, rows], of the same type   amax: [1, 1], f32
void quantize_turned(Stream& stream, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const DelayedAmax& delayed = {});

// With tiles of 1 x 128 of each form, whose largest values are found here. Without q there is no
// amax.
//   amax: [rows, tiles of columns], turned_amax: [columns, tiles of rows], f32
void quantize_turned_tiles(Stream& stream, Tensor& q, Tensor& amax, Tensor& turned,
                           Tensor& turned_amax, const Tensor& x);

}  // namespace sextant
