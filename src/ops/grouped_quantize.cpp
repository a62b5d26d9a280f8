#include "ops/grouped_quantize.h"

#include "ops/check.h"

namespace sextant {

SXT_CPU_BACKEND(grouped_amax)
SXT_CPU_BACKEND(grouped_quantize)

Shape grouped_grid(const Shape& x, int64_t experts, const ScaleBlock& block) {
  if (block == ScaleBlock{}) return {experts, 1};
  return {grouped_tiles(x[0], experts), x[1]};
}

namespace {

void check(std::string_view op, const Tensor& amax, const Tensor& x, const Tensor& offsets,
           const ScaleBlock& block) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  check_dims(op, "offsets", offsets, 1);
  SXT_CHECK(offsets.dim(0) >= 2 && offsets.dtype() == DType::I32, Usage, op, ": offsets is ",
            name_of(offsets.dtype()), " ", offsets.shape(), ", must be i32 [experts + 1]");
  SXT_CHECK(block == ScaleBlock{} || block == (ScaleBlock{kScaleBlock, 1}), Usage, op,
            ": blocks of ", block.rows, " x ", block.columns, ", must be 128 x 1 or of all rows");
  check_tensor(op, "amax", amax, DType::F32, grouped_grid(x.shape(), offsets.dim(0) - 1, block));
}

}  // namespace

void grouped_amax(Stream& stream, Tensor& amax, const Tensor& x, const Tensor& offsets,
                  const ScaleBlock& block) {
  check("grouped_amax", amax, x, offsets, block);
  SXT_DISPATCH_CPU(stream,
                   Work("grouped_amax").writes(amax).reads(x, offsets).flops(1.0 * x.elements()),
                   grouped_amax(stream, amax, x, offsets, block));
}

void grouped_quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
                      const Tensor& offsets, const ScaleBlock& block) {
  check("grouped_quantize", amax, x, offsets, block);
  SXT_CHECK(q && is_fp8(q.dtype()), Usage, "grouped_quantize: q is ", name_of(q.dtype()),
            ", must be f8e4m3 or f8e5m2");
  check_tensor("grouped_quantize", "q", q, q.dtype(), x.shape());
  SXT_DISPATCH_CPU(
      stream, Work("grouped_quantize").writes(q).reads(x, amax, offsets).flops(2.0 * x.elements()),
      grouped_quantize(stream, q, x, amax, offsets, block));
}

}  // namespace sextant
