#pragma once
#include "ops/activation.h"
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

// A tile is kTurnedTile rows of x. The sums of the rows of each tile, of the numbers of the
// transposed form times their scales, are what the gradient of a bias is made of.
inline constexpr int64_t kTurnedTile = 128;
inline int64_t turned_tiles(int64_t rows) {
  return (rows + kTurnedTile - 1) / kTurnedTile;
}

// What else a reading of x does. The sums are made with the transposed form only.
//   sums: [turned_tiles(rows), columns], f32
struct Turning {
  DelayedAmax delayed = {};
  Activated activated = {};
  Tensor sums = {};
};

// With one scale each: what quantize gives of x activated, and its transpose. Either form may be
// left out by an empty tensor.
//   q: [rows, columns], fp8   turned: [columns, rows], of the same type   amax: [1, 1], f32
void quantize_turned(Stream& stream, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const Turning& turning = {});

// With tiles of 1 x 128 of each form, whose largest values are found here; nothing is delayed. A
// form that is left out has no amax.
//   amax: [rows, tiles of columns], turned_amax: [columns, tiles of rows], f32
void quantize_turned_tiles(Stream& stream, Tensor& q, Tensor& amax, Tensor& turned,
                           Tensor& turned_amax, const Tensor& x, const Turning& turning = {});

// amax = the largest absolute value of x activated, NaN above all.   amax: [1, 1], f32
void activated_amax(Stream& stream, Tensor& amax, const Tensor& x, const Activated& activated);

// out = the sum of the sums of all tiles.   out: [columns]   sums: [tiles, columns], f32
void sum_turned_tiles(Stream& stream, Tensor& out, const Tensor& sums, Write write);

}  // namespace sextant
