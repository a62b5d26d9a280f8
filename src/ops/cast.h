#pragma once
#include <cstdint>

#include "ops/dispatch.h"

namespace sextant {

enum class Rounding { NearestEven, Stochastic };

// y = x in the type of y, for any two floating types. Stochastic rounding draws from Philox by
// (seed, first_element + element), so a slice gets the same bits as in the whole tensor.
void cast(Stream& stream, Tensor& y, const Tensor& x, Rounding rounding, uint64_t seed,
          int64_t first_element);

}  // namespace sextant
