#include "ops/sgd.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(sgd)

void sgd(Stream& stream, Tensor& weight, Tensor& velocity, const Tensor& gradient,
         const SgdStep& step) {
  check_float("sgd", "weight", weight);
  check_tensor("sgd", "gradient", gradient, weight.dtype(), weight.shape());
  if (velocity) check_tensor("sgd", "velocity", velocity, weight.dtype(), weight.shape());
  SXT_CHECK(velocity || step.momentum == 0, Usage, "sgd: momentum ", step.momentum,
            " needs a velocity, got an empty one");
  SXT_DISPATCH(stream,
               Work("sgd")
                   .writes(weight, velocity)
                   .reads(weight, velocity, gradient)
                   .flops((velocity ? 6.0 : 4.0) * weight.elements()),
               sgd(stream, weight, velocity, gradient, step));
}

}  // namespace sextant
