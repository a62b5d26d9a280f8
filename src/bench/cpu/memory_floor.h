#pragma once
#include "tensor/stream.h"

namespace sextant {

// Adds `read` to each of the other three: the memory traffic of an AdamW step with almost no
// arithmetic. All f32 of one shape.
void memory_floor(Stream& stream, Tensor& a, Tensor& b, Tensor& c, const Tensor& read);

}  // namespace sextant
