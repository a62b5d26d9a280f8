#pragma once
#include "ops/dispatch.h"

namespace sextant {

// y = a + b, same shapes; y may be a or b.
void add(Stream& stream, Tensor& y, const Tensor& a, const Tensor& b);

}  // namespace sextant
