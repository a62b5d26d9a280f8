#include "ops/cast.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check_floating(std::string_view name, const Tensor& x) {
  SXT_CHECK(x && x.dtype() != DType::I32 && x.dtype() != DType::I64, Usage, "cast: ", name,
            x ? " is " : " is empty, as ", name_of(x.dtype()), " ", x.shape(),
            ", must be of a floating type");
}

}  // namespace

SXT_BACKENDS(cast)

void cast(Stream& stream, Tensor& y, const Tensor& x, Rounding rounding, uint64_t seed,
          int64_t first_element) {
  check_floating("x", x);
  check_floating("y", y);
  check_tensor("cast", "y", y, y.dtype(), x.shape());
  SXT_CHECK(first_element >= 0, Usage, "cast: first_element is ", first_element,
            ", must not be negative");
  SXT_DISPATCH(stream, Work("cast").writes(y).reads(x).flops(1.0 * x.elements()),
               cast(stream, y, x, rounding, seed, first_element));
}

}  // namespace sextant
