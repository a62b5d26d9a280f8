#include "ops/update.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(clip)

void clip(Stream& stream, Tensor& scalars, const Tensor& squares, double limit) {
  check_tensor("clip", "scalars", scalars, DType::F64, {kUpdateScalars});
  check_tensor("clip", "squares", squares, DType::F64, {1});
  SXT_CHECK(limit >= 0, Usage, "clip: a limit of ", limit, ", must be 0 or more");
  // The two scalars that it writes lie next to each other.
  const auto first = static_cast<int64_t>(UpdateScalar::GradientScale);
  static_assert(static_cast<int64_t>(UpdateScalar::Apply) == first + 1);
  Tensor written = scalars.slice(first, first + 2);
  SXT_DISPATCH(stream, Work("clip").writes(written).reads(squares).flops(4),
               clip(stream, scalars, squares, limit));
}

}  // namespace sextant
