#include "ops/add.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(add)

void add(Stream& stream, Tensor& y, const Tensor& a, const Tensor& b) {
  check_float("add", "a", a);
  check_tensor("add", "b", b, a.dtype(), a.shape());
  check_tensor("add", "y", y, a.dtype(), a.shape());
  SXT_DISPATCH(stream, Work("add").writes(y).reads(a, b).flops(1.0 * y.elements()),
               add(stream, y, a, b));
}

}  // namespace sextant
