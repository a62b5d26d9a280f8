#include "ops/sum.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& out, const Tensor& x) {
  check_float(op, "x", x);
  check_tensor(op, "out", out, DType::F64, {1});
  constexpr int64_t kMost = Stream::kSharedScratch / size_of(DType::F64) * kSumBlock;
  SXT_CHECK(x.elements() <= kMost, Usage, "sum: ", x.shape(),
            " has too many elements for one sum; sum slices of it");
}

Work work_of(const Tensor& out, const Tensor& x, Write write) {
  Work work("sum");
  work.writes(out).reads(x);
  if (write == Write::Add) work.reads(out);
  return work.flops(static_cast<double>(x.elements()));
}

Work work_of_squares(const Tensor& out, std::span<const Tensor> x) {
  double elements = 0;
  for (const Tensor& one : x) elements += static_cast<double>(one.elements());
  return Work("sum_of_squares").writes(out).reads(x).flops(2 * elements);
}

}  // namespace

SXT_BACKENDS(sum)
SXT_BACKENDS(sum_of_squares)

void sum(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  check("sum", out, x);
  check_write("sum", write);
  SXT_DISPATCH(stream, work_of(out, x, write), sum(stream, out, x, write));
}

void sum_of_squares(Stream& stream, Tensor& out, std::span<const Tensor> x) {
  check_tensor("sum_of_squares", "out", out, DType::F64, {1});
  for (const Tensor& one : x) check("sum_of_squares", out, one);
  SXT_DISPATCH(stream, work_of_squares(out, x), sum_of_squares(stream, out, x));
}

}  // namespace sextant
