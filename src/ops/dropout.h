#pragma once
#include <cstdint>
#include <string_view>

#include "ops/dispatch.h"

namespace sextant {

// Names a mask: whether an element is dropped depends on the seed, the name (of layer and place),
// the step, the token and the feature, so it is the same under every layout and when computed
// again.
struct DropoutMask {
  uint64_t seed = 0;
  std::string_view name;
  double p = 0;               // chance of being dropped, at least 0 and less than 1
  int64_t first_feature = 0;  // of the whole hidden size, that the first column is
};

// y = x / (1 - p) where the mask keeps the element and 0 elsewhere. The backward is the same op on
// dy. y may be x.
//   y, x: [rows, columns]   tokens: [rows], i32, index within the batch of all ranks; a negative
//   one is reported as Error(Usage) and taken as 0
//   step: [1], f64, of training; a negative one is reported as Error(Usage) and taken as 0
void dropout(Stream& stream, Tensor& y, const Tensor& x, const Tensor& tokens, const Tensor& step,
             const DropoutMask& mask);

}  // namespace sextant
