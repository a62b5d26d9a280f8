#include "ops/delayed_amax.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sextant::cpu {

decltype(sextant::take_delayed_amax) take_delayed_amax;
decltype(sextant::update_delayed_amax) update_delayed_amax;

// Absolute values ascend as their bits do, and NaN is above infinity.
void take_delayed_amax(Stream&, Tensor& amax, Tensor& found, const Tensor& used, WithAmax with) {
  const auto magnitude = [](float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffU; };
  float& most = *found.data<float>();
  float& own = *amax.data<float>();
  most = std::bit_cast<float>(std::max(magnitude(most), magnitude(own)));
  const float known = *used.data<float>();
  if (with == WithAmax::Used || (with == WithAmax::UsedIfAny && known > 0)) own = known;
}

void update_delayed_amax(Stream&, Tensor& state, const Tensor& found, int64_t margin) {
  const int64_t width = state.dim(1);
  for (int64_t row = 0; row < state.dim(0); ++row) {
    float* used = state.data<float>() + row * width;
    float* history = used + 1;
    const float newest = found.data<float>()[row];
    if (std::isfinite(newest)) {
      std::copy_backward(history, history + width - 2, history + width - 1);
      history[0] = newest;
    }
    const float most = *std::max_element(history, history + width - 1);
    const float next = std::ldexp(most, static_cast<int>(margin));
    if (most > 0 && std::isfinite(next)) *used = next;
  }
}

}  // namespace sextant::cpu
