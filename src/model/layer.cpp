#include "model/layer.h"

namespace sextant {

Tensor activation(Stream& stream, const Tensor& like, const Shape& shape) {
  return stream.arena().allocate(Category::Activations, like.dtype(), shape);
}

}  // namespace sextant
