#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

namespace sextant {

// Up to five dims, stored inline: a shape never allocates.
class Shape {
 public:
  static constexpr int kMaxDims = 5;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int dims() const { return count_; }
  int64_t operator[](int dim) const { return sizes_[static_cast<size_t>(dim)]; }
  int64_t elements() const;
  std::span<const int64_t> sizes() const { return {sizes_.data(), static_cast<size_t>(count_)}; }
  friend bool operator==(const Shape& a, const Shape& b) = default;

 private:
  std::array<int64_t, kMaxDims> sizes_{};
  int count_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);  // [2, 3]

}  // namespace sextant
