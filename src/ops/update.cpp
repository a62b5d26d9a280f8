#include "ops/update.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(clip)
SXT_BACKENDS(apply_unless_bad_data)

void clip(Stream& stream, Tensor& scalars, const Tensor& squares, double limit) {
  check_tensor("clip", "scalars", scalars, DType::F64, {kUpdateScalars});
  check_tensor("clip", "squares", squares, DType::F64, {1});
  SXT_CHECK(limit >= 0, Usage, "clip: a limit of ", limit, ", must be 0 or more");
  constexpr int64_t kWritten = 2 * size_of(DType::F64);  // GradientScale and Apply
  SXT_DISPATCH(stream,
               Work("clip")
                   .writes_some(scalars, kWritten)
                   .reads_some(scalars, size_of(DType::F64))
                   .reads(squares)
                   .flops(6),
               clip(stream, scalars, squares, limit));
}

void apply_unless_bad_data(Stream& stream, Tensor& scalars) {
  check_tensor("apply_unless_bad_data", "scalars", scalars, DType::F64, {kUpdateScalars});
  SXT_DISPATCH(stream, Work("apply_unless_bad_data").writes_some(scalars, size_of(DType::F64)),
               apply_unless_bad_data(stream, scalars));
}

}  // namespace sextant
