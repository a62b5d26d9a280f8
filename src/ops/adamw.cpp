#include "ops/adamw.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(adamw)

void adamw(Stream& stream, Tensor& weight, Tensor& first_moment, Tensor& second_moment,
           const Tensor& gradient, const AdamWStep& step) {
  check_float("adamw", "weight", weight);
  check_tensor("adamw", "first_moment", first_moment, weight.dtype(), weight.shape());
  check_tensor("adamw", "second_moment", second_moment, weight.dtype(), weight.shape());
  check_tensor("adamw", "gradient", gradient, weight.dtype(), weight.shape());
  SXT_CHECK(step.correction1 > 0 && step.correction2 > 0, Usage, "adamw: corrections are ",
            step.correction1, " and ", step.correction2,
            ", must be positive (1 - beta^step, steps counted from 1)");
  SXT_DISPATCH(stream,
               Work("adamw")
                   .writes(weight, first_moment, second_moment)
                   .reads(weight, first_moment, second_moment, gradient)
                   .flops(14.0 * weight.elements()),
               adamw(stream, weight, first_moment, second_moment, gradient, step));
}

}  // namespace sextant
