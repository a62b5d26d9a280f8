#include "ops/activation.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(activate);

void activate(Stream& stream, Tensor& y, const Tensor& x, const Activated& activated) {
  check_float("activate", "x", x);
  check_tensor("activate", "y", y, x.dtype(), x.shape());
  SXT_CHECK(activated.activation != Activation::None, Usage, "activate: no activation is given");
  if (activated.backward_of)
    check_tensor("activate", "backward_of", activated.backward_of, x.dtype(), x.shape());
  SXT_DISPATCH(stream,
               Work("activate")
                   .writes(y)
                   .reads(x, activated.backward_of)
                   .flops(kActivationFlops * static_cast<double>(x.elements())),
               activate(stream, y, x, activated));
}

}  // namespace sextant
