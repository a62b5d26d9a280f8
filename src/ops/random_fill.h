#pragma once
#include <cstdint>
#include <string_view>

#include "ops/dispatch.h"

namespace sextant {

// y[i] = std * normal(first_element + i), drawn by (seed, name): a slice gets the same values as in
// the whole tensor. Drawn in double, then rounded; for narrow types
// by way of f32, so that they are the rounded f32 values.
void fill_normal(Stream& stream, Tensor& y, uint64_t seed, std::string_view name, double std,
                 int64_t first_element);

void fill_constant(Stream& stream, Tensor& y, double value);

}  // namespace sextant
