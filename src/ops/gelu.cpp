#include "ops/gelu.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check_form(std::string_view op, Activation form) {
  SXT_CHECK(form == Activation::GeluTanh || form == Activation::GeluExact, Usage, op,
            ": the form must be Activation::GeluTanh or GeluExact");
}

}  // namespace

SXT_BACKENDS(gelu)
SXT_BACKENDS(gelu_backward)

void gelu(Stream& stream, Tensor& y, const Tensor& x, Activation form) {
  check_float("gelu", "x", x);
  check_tensor("gelu", "y", y, x.dtype(), x.shape());
  check_form("gelu", form);
  SXT_DISPATCH(stream, Work("gelu").writes(y).reads(x).flops(kActivationFlops * x.elements()),
               gelu(stream, y, x, form));
}

void gelu_backward(Stream& stream, Tensor& dx, const Tensor& dy, const Tensor& x, Activation form) {
  check_float("gelu_backward", "x", x);
  check_tensor("gelu_backward", "dx", dx, x.dtype(), x.shape());
  check_tensor("gelu_backward", "dy", dy, x.dtype(), x.shape());
  check_form("gelu_backward", form);
  SXT_DISPATCH(
      stream,
      Work("gelu_backward").writes(dx).reads(dy, x).flops((kActivationFlops + 1) * x.elements()),
      gelu_backward(stream, dx, dy, x, form));
}

}  // namespace sextant
