#include "ops/sum.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& out, const Tensor& x, Write write) {
  check_float(op, "x", x);
  check_tensor(op, "out", out, DType::F64, {1});
  check_write(op, write);
}

}  // namespace

SXT_BACKENDS(sum)
SXT_BACKENDS(sum_of_squares)

void sum(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  check("sum", out, x, write);
  SXT_DISPATCH(stream, sum(stream, out, x, write));
}

void sum_of_squares(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  check("sum_of_squares", out, x, write);
  SXT_DISPATCH(stream, sum_of_squares(stream, out, x, write));
}

}  // namespace sextant
