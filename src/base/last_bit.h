#pragma once
#include <algorithm>
#include <cmath>

#include "base/dtype.h"

namespace sextant {

// The distance from a number of this floating-point type to the next larger one.
inline float last_bit(float value, DType type) {
  const auto of = [&](int bits, int least) {
    return std::ldexp(1.0F, std::max(std::ilogb(value), least) - bits);
  };
  if (type == DType::BF16) return of(7, -126);
  if (type == DType::F16) return of(10, -14);
  return of(23, -126);
}

}  // namespace sextant
