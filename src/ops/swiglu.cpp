#include "ops/swiglu.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, std::string_view name, const Tensor& y, const Tensor& gate_up) {
  check_float(op, "gate_up", gate_up);
  check_dims(op, "gate_up", gate_up, 2);
  SXT_CHECK(gate_up.dim(1) % 2 == 0, Usage, op, ": gate_up is ", gate_up.shape(),
            ", must have an even last dim");
  check_tensor(op, name, y, gate_up.dtype(), {gate_up.dim(0), gate_up.dim(1) / 2});
}

}  // namespace

SXT_BACKENDS(swiglu)
SXT_BACKENDS(swiglu_backward)

void swiglu(Stream& stream, Tensor& y, const Tensor& gate_up) {
  check("swiglu", "y", y, gate_up);
  SXT_DISPATCH(stream, Work("swiglu").writes(y).reads(gate_up).flops(5.0 * y.elements()),
               swiglu(stream, y, gate_up));
}

void swiglu_backward(Stream& stream, Tensor& dgate_up, const Tensor& dy, const Tensor& gate_up) {
  check("swiglu_backward", "dy", dy, gate_up);
  check_tensor("swiglu_backward", "dgate_up", dgate_up, gate_up.dtype(), gate_up.shape());
  SXT_DISPATCH(
      stream,
      Work("swiglu_backward").writes(dgate_up).reads(dy, gate_up).flops(8.0 * dy.elements()),
      swiglu_backward(stream, dgate_up, dy, gate_up));
}

}  // namespace sextant
