#pragma once
#include "base/range.h"
#include "ops/quantize.h"

namespace sextant {

// Scales of rows that belong to experts, as in grouped_linear: those of an expert are a matrix with
// scales of its own, as block_amax and quantize give them. Rows from the last offset on are left
// alone. On the CPU. There are two kinds of blocks:
//   {}        one scale for each expert: [experts, 1]
//   128 x 1   tiles that begin at the expert's first row: [grouped_tiles, columns], of which
//             tiles_of_expert are the expert's and some are not used

// Tiles of any division of rows among experts, at most.
constexpr int64_t grouped_tiles(int64_t rows, int64_t experts) {
  return rows / kScaleBlock + experts;
}
// Those of an expert with these rows.
inline Range tiles_of_expert(const Range& rows, int64_t expert) {
  const int64_t first = rows.begin / kScaleBlock + expert;
  return {first, first + (rows.size() + kScaleBlock - 1) / kScaleBlock};
}
// The shape of the scales of x [rows, columns].
Shape grouped_grid(const Shape& x, int64_t experts, const ScaleBlock& block);

//   amax: [grouped_grid], f32   x: [rows, columns], any float   offsets: i32 [experts + 1]
void grouped_amax(Stream& stream, Tensor& amax, const Tensor& x, const Tensor& offsets,
                  const ScaleBlock& block);
//   q: [rows, columns], fp8
void grouped_quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
                      const Tensor& offsets, const ScaleBlock& block);

}  // namespace sextant
