#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/error.h"
#include "base/range.h"
#include "tensor/shape.h"

namespace sextant {

// A contiguous row-major tensor. Copies share the memory, which is freed with the last of them.
// Only ops, comm and copy.h may dereference data().
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, const Shape& shape, std::shared_ptr<std::byte> data)
      : dtype_(dtype), shape_(shape), data_(std::move(data)) {}

  explicit operator bool() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int index) const { return shape_[index < 0 ? shape_.dims() + index : index]; }
  int64_t elements() const { return shape_.elements(); }
  int64_t bytes() const { return elements() * size_of(dtype_); }
  int64_t rows() const {
    return shape_.dims() == 0 ? 1 : elements() / std::max<int64_t>(1, dim(-1));
  }

  template <class T>
  T* data() {
    check_type(kDTypeOf<T>);
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* data() const {
    check_type(kDTypeOf<T>);
    return reinterpret_cast<const T*>(data_.get());
  }
  std::byte* raw() { return data_.get(); }
  const std::byte* raw() const { return data_.get(); }

  // Owns the memory and identifies it in the arena.
  const std::shared_ptr<std::byte>& handle() const { return data_; }

  // View of rows begin ... end - 1 of dim 0.
  Tensor slice(int64_t begin, int64_t end) const;
  Tensor slice(const Range& rows) const { return slice(rows.begin, rows.end); }
  // View of the same elements with another shape.
  Tensor view(const Shape& shape) const;

 private:
  void check_type(DType wanted) const {
    SXT_CHECK(dtype_ == wanted, Internal, "tensor ", shape_, " is ", name_of(dtype_), ", not ",
              name_of(wanted));
  }

  DType dtype_ = DType::F32;
  Shape shape_;
  std::shared_ptr<std::byte> data_;
};

}  // namespace sextant
