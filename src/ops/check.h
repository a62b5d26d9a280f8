#pragma once
#include <initializer_list>
#include <string_view>

#include "ops/dispatch.h"

namespace sextant {

// Checks of op arguments. A failure is Error(Usage) that names the op, the argument, its value and
// what would be valid.

// Whether ops compute with elements of this type.
inline bool is_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 || dtype == DType::BF16 || dtype == DType::F16;
}

// Not empty, and of type f32, bf16, f16 or f64.
inline void check_float(std::string_view op, std::string_view name, const Tensor& x) {
  SXT_CHECK(x && is_float(x.dtype()), Usage, op, ": ", name, x ? " is " : " is empty, as ",
            name_of(x.dtype()), " ", x.shape(), ", must be f32, bf16, f16 or f64");
}

// The type of statistics of a tensor of this type, and of sums over it: f32, f64 for f64.
constexpr DType statistics_of(DType dtype) {
  return dtype == DType::F64 ? DType::F64 : DType::F32;
}

inline void check_tensor(std::string_view op, std::string_view name, const Tensor& x, DType dtype,
                         const Shape& shape) {
  SXT_CHECK(x && x.dtype() == dtype && x.shape() == shape, Usage, op, ": ", name,
            x ? " is " : " is empty, as ", name_of(x.dtype()), " ", x.shape(), ", must be ",
            name_of(dtype), " ", shape);
}

// A result that is summed up from tensors of `dtype`, such as a gradient: of that type or of the
// type of their statistics.
inline void check_gradient(std::string_view op, std::string_view name, const Tensor& x, DType dtype,
                           const Shape& shape) {
  check_tensor(op, name, x, x.dtype() == dtype ? dtype : statistics_of(dtype), shape);
}

inline void check_dims(std::string_view op, std::string_view name, const Tensor& x, int dims) {
  SXT_CHECK(x.shape().dims() == dims, Usage, op, ": ", name, " is ", x.shape(), ", must have ",
            dims, " dims");
}

// The sums over rows of x, `each` per column, must fit the shared scratch.
inline void check_row_sums(std::string_view op, const Tensor& x, int64_t each) {
  const int64_t width = each * x.dim(1);
  SXT_CHECK(width * size_of(statistics_of(x.dtype())) <= Stream::kSharedScratch, Usage, op,
            ": rows of ", width, " elements are too wide to be summed in ", Stream::kSharedScratch,
            " bytes of scratch");
}

// Only Replace and Add are allowed.
inline void check_write(std::string_view op, Write write) {
  SXT_CHECK(write != Write::Chain, Usage, op, ": Write::Chain is not possible here, only Replace",
            " and Add");
}

}  // namespace sextant
