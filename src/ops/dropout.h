#pragma once
#include <cstdint>
#include <string_view>

#include "ops/dispatch.h"

namespace sextant {

// Identifies a mask. Whether an element is dropped depends on the seed, the name (of layer and
// place), the step, the token and the feature, so it is the same in every layout and in activation
// recomputation.
struct DropoutMask {
  uint64_t seed = 0;
  std::string_view name;
  double p = 0;               // probability of dropping, in [0, 1)
  int64_t first_feature = 0;  // index of the first column in the whole hidden size
};

// y = x / (1 - p) where the mask keeps the element and 0 elsewhere. The backward is the same op on
// dy. y may be x. Negative tokens and steps are reported as Error(Usage) and taken as 0.
//   y, x: [rows, columns]   tokens: [rows], i32, index in the global batch
//   step: [1], f64, training step
void dropout(Stream& stream, Tensor& y, const Tensor& x, const Tensor& tokens, const Tensor& step,
             const DropoutMask& mask);

}  // namespace sextant
