#pragma once
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

// Allocates an activation of the given shape, of `dtype` or of the type of `like`.
inline Tensor allocate_activation(Stream& stream, DType dtype, const Shape& shape) {
  return stream.arena().allocate(Category::Activations, dtype, shape);
}
inline Tensor allocate_activation(Stream& stream, const Tensor& like, const Shape& shape) {
  return allocate_activation(stream, like.dtype(), shape);
}

}  // namespace sextant
