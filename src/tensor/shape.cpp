#include "tensor/shape.h"

#include <limits>
#include <ostream>

#include "base/error.h"

namespace sextant {

Shape::Shape(std::span<const int64_t> dims) : count_(static_cast<int>(dims.size())) {
  SXT_CHECK(dims.size() <= kMaxDims, Usage, "a tensor has at most ", kMaxDims, " dims, got ",
            dims.size());
  int64_t elements = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    SXT_CHECK(dims[i] >= 0, Usage, "dim ", i, " is ", dims[i], ", must not be negative");
    SXT_CHECK(dims[i] == 0 || elements <= std::numeric_limits<int64_t>::max() / 8 / dims[i], Usage,
              "a tensor of that many elements cannot be addressed: dim ", i, " is ", dims[i]);
    sizes_[i] = dims[i];
    elements *= dims[i] == 0 ? 1 : dims[i];
  }
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t size : sizes()) product *= size;
  return product;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.dims(); ++i) out << (i > 0 ? ", " : "") << shape[i];
  return out << ']';
}

}  // namespace sextant
