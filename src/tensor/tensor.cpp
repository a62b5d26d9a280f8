#include "tensor/tensor.h"

namespace sextant {

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  SXT_CHECK(shape_.dims() > 0 && 0 <= begin && begin <= end && end <= shape_[0], Usage, "rows ",
            begin, "...", end, " of a tensor ", shape_);
  std::array<int64_t, Shape::kMaxDims> sizes{};
  std::copy(shape_.sizes().begin(), shape_.sizes().end(), sizes.begin());
  const int64_t row_bytes = shape_[0] == 0 ? 0 : bytes() / shape_[0];
  sizes[0] = end - begin;
  return Tensor(dtype_, Shape(std::span<const int64_t>(sizes.data(), shape_.sizes().size())),
                std::shared_ptr<std::byte>(data_, data_.get() + begin * row_bytes));
}

Tensor Tensor::view(const Shape& shape) const {
  SXT_CHECK(shape.elements() == elements(), Usage, "cannot view ", shape_, " as ", shape);
  return Tensor(dtype_, shape, data_);
}

}  // namespace sextant
