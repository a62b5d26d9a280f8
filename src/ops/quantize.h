#pragma once
#include <algorithm>

#include "ops/dispatch.h"

namespace sextant {

// The tiles of a matrix that share a scale: 1 x 128, 128 x 1, 128 x 128, or the whole (0 x 0). The
// last tile of a row or column may be smaller. A matrix that was gathered from equal parts, one
// below the other, has tiles that begin in each part.
struct ScaleBlock {
  int64_t rows = 0, columns = 0;  // 0: all
  int64_t part_rows = 0;          // rows of a part; 0: the matrix is one part

  // Blocks of a part, one below the other.
  int64_t blocks_of_part() const { return (part_rows + rows - 1) / rows; }
  int64_t row_of(int64_t row) const {
    if (rows == 0) return 0;
    if (part_rows == 0) return row / rows;
    return row / part_rows * blocks_of_part() + row % part_rows / rows;
  }
  int64_t column_of(int64_t column) const { return columns == 0 ? 0 : column / columns; }
  // Shape of the scales of x [rows, columns].
  Shape grid(const Shape& x) const {
    const auto count = [](int64_t size, int64_t step) {
      return step == 0 ? int64_t{1} : std::max<int64_t>(1, (size + step - 1) / step);
    };
    const int64_t down =
        part_rows == 0 || rows == 0 ? count(x[0], rows) : x[0] / part_rows * blocks_of_part();
    return {down, count(x[1], columns)};
  }
  friend bool operator==(const ScaleBlock&, const ScaleBlock&) = default;
};

// Tiles of 1 x 128 and blocks of 128 x 128, as in DeepSeek-V3.
inline constexpr int64_t kScaleBlock = 128;
inline constexpr ScaleBlock kWeightBlock{kScaleBlock, kScaleBlock};

// Elements of a matrix in row-major order, from `first` on, that a flat tensor [1, elements] holds.
struct MatrixPiece {
  Shape whole;  // [rows, columns] of the matrix; no dims: the tensor is the matrix
  int64_t first = 0;
};

// The largest finite value of an fp8 type: 448 or 57344.
float largest_fp8(DType dtype);
inline bool is_fp8(DType dtype) {
  return dtype == DType::F8E4M3 || dtype == DType::F8E5M2;
}

// The scale of a block with this largest absolute value: a stored number times its scale is the
// number meant. A block of zeros has the scale 1. A value that is not finite makes the whole block
// not finite, so that it is not lost by saturation.
float fp8_scale(float amax, DType dtype);
// The factor before the cast: largest / amax, rounded to f32. Both take an amax below the least
// normal f32 times the largest for that.
float fp8_factor(float amax, DType dtype);

// amax = largest absolute value of each block of x, NaN where a block has one. Of a piece of a
// matrix: 0 where it has no element.
//   x: [rows, columns], any float   amax: [block.grid], f32
void block_amax(Stream& stream, Tensor& amax, const Tensor& x, const ScaleBlock& block,
                const MatrixPiece& piece = {});

// q = x * fp8_factor(amax), in f32, then rounded to nearest even. Finite values saturate, infinity
// becomes NaN or infinity: it is not hidden.
//   q: [rows, columns], fp8   x: the same shape   amax: [block.grid], f32
void quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
              const ScaleBlock& block, const MatrixPiece& piece = {});

// Both for the blocks of a weight, of 128 x 128.
//   q: [rows, columns], fp8   amax: [kWeightBlock.grid], f32   x: [rows, columns], any float
void quantize_blocks(Stream& stream, Tensor& q, Tensor& amax, const Tensor& x);

}  // namespace sextant
