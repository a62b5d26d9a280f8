#pragma once
#include <cstdint>

#include "ops/dispatch.h"

namespace sextant {

enum class Rounding { NearestEven, Stochastic };

// y = x in the type of y, any floating type to any other. Stochastic rounding draws from Philox by
// (seed, element + first_element), so a slice gets the bits the whole would.
void cast(Stream& stream, Tensor& y, const Tensor& x, Rounding rounding, uint64_t seed,
          int64_t first_element);

}  // namespace sextant
