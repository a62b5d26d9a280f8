#include "ops/delayed_amax.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(take_delayed_amax);
SXT_BACKENDS(update_delayed_amax);

void take_delayed_amax(Stream& stream, Tensor& amax, Tensor& found, const Tensor& used,
                       WithAmax with) {
  const auto check_one = [](const char* name, const Tensor& tensor) {
    SXT_CHECK(tensor && tensor.dtype() == DType::F32 && tensor.elements() == 1, Usage,
              "take_delayed_amax: ", name, " must be one f32");
  };
  check_one("amax", amax);
  check_one("found", found);
  check_one("used", used);
  SXT_DISPATCH(stream,
               Work("take_delayed_amax")
                   .writes(found, with != WithAmax::Found ? amax : Tensor())
                   .reads(found, amax, with != WithAmax::Found ? used : Tensor())
                   .flops(1),
               take_delayed_amax(stream, amax, found, used, with));
}

void update_delayed_amax(Stream& stream, Tensor& state, const Tensor& found, int64_t margin) {
  check_dims("update_delayed_amax", "state", state, 2);
  check_tensor("update_delayed_amax", "state", state, DType::F32, state.shape());
  SXT_CHECK(state.dim(1) >= 2, Usage, "update_delayed_amax: state is ", state.shape(),
            ", must have an amax and a history in each row");
  check_tensor("update_delayed_amax", "found", found, DType::F32, Shape{state.dim(0)});
  SXT_DISPATCH(
      stream,
      Work("update_delayed_amax").writes(state).reads(state, found).flops(1.0 * state.elements()),
      update_delayed_amax(stream, state, found, margin));
}

}  // namespace sextant
