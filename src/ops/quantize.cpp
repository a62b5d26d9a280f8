#include "ops/quantize.h"

#include <limits>

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(block_amax);
SXT_BACKENDS(quantize);
SXT_BACKENDS(quantize_blocks);

float largest_fp8(DType dtype) {
  SXT_CHECK(is_fp8(dtype), Internal, name_of(dtype), " is not an fp8 type");
  return dtype == DType::F8E4M3 ? 448.0F : 57344.0F;
}

namespace {

// So large at least that scale and factor are normal numbers. Keeps NaN.
float at_least_normal(float amax, DType dtype) {
  const float least = largest_fp8(dtype) * std::numeric_limits<float>::min();
  return amax < least ? least : amax;
}

}  // namespace

float fp8_scale(float amax, DType dtype) {
  return amax == 0 ? 1.0F : at_least_normal(amax, dtype) / largest_fp8(dtype);
}

float fp8_factor(float amax, DType dtype) {
  return amax == 0 ? 1.0F : largest_fp8(dtype) / at_least_normal(amax, dtype);
}

namespace {

// The shape of the matrix of which x is all or a piece.
Shape matrix_of(std::string_view op, const Tensor& x, const MatrixPiece& piece) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  if (piece.whole.dims() == 0) return x.shape();
  SXT_CHECK(
      x.dim(0) == 1 && piece.first >= 0 && piece.first + x.elements() <= piece.whole.elements(),
      Usage, op, ": x is ", x.shape(), " from element ", piece.first, " of ", piece.whole,
      ", must be elements of it in one row");
  return piece.whole;
}

}  // namespace

void block_amax(Stream& stream, Tensor& amax, const Tensor& x, const ScaleBlock& block,
                const MatrixPiece& piece) {
  const Shape matrix = matrix_of("block_amax", x, piece);
  check_tensor("block_amax", "amax", amax, DType::F32, block.grid(matrix));
  SXT_DISPATCH(stream, Work("block_amax").writes(amax).reads(x).flops(1.0 * x.elements()),
               block_amax(stream, amax, x, block, {matrix, piece.first}));
}

void quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
              const ScaleBlock& block, const MatrixPiece& piece) {
  const Shape matrix = matrix_of("quantize", x, piece);
  SXT_CHECK(q && is_fp8(q.dtype()), Usage, "quantize: q is ", name_of(q.dtype()),
            ", must be f8e4m3 or f8e5m2");
  check_tensor("quantize", "q", q, q.dtype(), x.shape());
  check_tensor("quantize", "amax", amax, DType::F32, block.grid(matrix));
  SXT_DISPATCH(stream, Work("quantize").writes(q).reads(x, amax).flops(2.0 * x.elements()),
               quantize(stream, q, x, amax, block, {matrix, piece.first}));
}

void quantize_blocks(Stream& stream, Tensor& q, Tensor& amax, const Tensor& x) {
  check_float("quantize_blocks", "x", x);
  check_dims("quantize_blocks", "x", x, 2);
  SXT_CHECK(q && is_fp8(q.dtype()), Usage, "quantize_blocks: q is ", name_of(q.dtype()),
            ", must be f8e4m3 or f8e5m2");
  check_tensor("quantize_blocks", "q", q, q.dtype(), x.shape());
  check_tensor("quantize_blocks", "amax", amax, DType::F32, kWeightBlock.grid(x.shape()));
  SXT_DISPATCH(stream, Work("quantize_blocks").writes(q, amax).reads(x).flops(3.0 * x.elements()),
               quantize_blocks(stream, q, amax, x));
}

}  // namespace sextant
