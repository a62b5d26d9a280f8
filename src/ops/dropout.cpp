#include "ops/dropout.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(dropout)

void dropout(Stream& stream, Tensor& y, const Tensor& x, const Tensor& tokens, const Tensor& step,
             const DropoutMask& mask) {
  check_float("dropout", "x", x);
  check_dims("dropout", "x", x, 2);
  check_tensor("dropout", "y", y, x.dtype(), x.shape());
  check_tensor("dropout", "tokens", tokens, DType::I32, {x.dim(0)});
  SXT_CHECK(mask.p >= 0 && mask.p < 1, Usage, "dropout: p=", mask.p,
            ", must be at least 0 and less than 1");
  SXT_CHECK(mask.first_feature >= 0, Usage, "dropout: first_feature=", mask.first_feature,
            ", must not be negative");
  check_tensor("dropout", "step", step, DType::F64, {1});
  SXT_DISPATCH(stream, Work("dropout").writes(y).reads(x, tokens, step).flops(2.0 * x.elements()),
               dropout(stream, y, x, tokens, step, mask));
}

}  // namespace sextant
