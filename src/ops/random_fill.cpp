#include "ops/random_fill.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(fill_normal);
SXT_BACKENDS(fill_constant);

namespace {

void check_type(const char* op, const Tensor& y) {
  SXT_CHECK(is_float(y.dtype()), Usage, op, ": y is ", name_of(y.dtype()),
            ", must be f32, bf16, f16 or f64");
}

}  // namespace

void fill_normal(Stream& stream, Tensor& y, uint64_t seed, std::string_view name, double std,
                 int64_t first_element) {
  check_type("fill_normal", y);
  SXT_CHECK(first_element >= 0, Usage, "fill_normal: first_element is ", first_element);
  SXT_DISPATCH(stream, Work("fill_normal").writes(y).flops(10.0 * y.elements()),
               fill_normal(stream, y, seed, name, std, first_element));
}

void fill_constant(Stream& stream, Tensor& y, double value) {
  check_type("fill_constant", y);
  SXT_DISPATCH(stream, Work("fill_constant").writes(y), fill_constant(stream, y, value));
}

}  // namespace sextant
