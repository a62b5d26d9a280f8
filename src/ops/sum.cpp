#include "ops/sum.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& out, const Tensor& x, Write write) {
  check_float(op, "x", x);
  check_tensor(op, "out", out, DType::F64, {1});
  check_write(op, write);
}

Work work_of(const char* op, const Tensor& out, const Tensor& x, Write write, double each) {
  Work work(op);
  work.writes(out).reads(x);
  if (write == Write::Add) work.reads(out);
  return work.flops(each * x.elements());
}

}  // namespace

SXT_BACKENDS(sum)
SXT_BACKENDS(sum_of_squares)

void sum(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  check("sum", out, x, write);
  SXT_DISPATCH(stream, work_of("sum", out, x, write, 1), sum(stream, out, x, write));
}

void sum_of_squares(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  check("sum_of_squares", out, x, write);
  SXT_DISPATCH(stream, work_of("sum_of_squares", out, x, write, 2),
               sum_of_squares(stream, out, x, write));
}

}  // namespace sextant
