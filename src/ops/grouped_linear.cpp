#include "ops/grouped_linear.h"

#include "ops/check.h"

namespace sextant {
namespace {

// x: [rows, in], y: [rows, out], weight: [experts * out, in]; x and y of one type, unless the
// operands are fp8.
void check_grouped_linear(std::string_view op, const Tensor& y, const Tensor& x,
                          const Tensor& weight, const Tensor& offsets) {
  check_dims(op, "x", x, 2);
  check_dims(op, "y", y, 2);
  check_dims(op, "offsets", offsets, 1);
  SXT_CHECK(y.dim(0) == x.dim(0), Usage, op, ": y is ", y.shape(), " for x ", x.shape());
  SXT_CHECK(offsets.dim(0) >= 2 && offsets.dtype() == DType::I32, Usage, op, ": offsets is ",
            name_of(offsets.dtype()), " ", offsets.shape(), ", must be i32 [experts + 1]");
  const int64_t experts = offsets.dim(0) - 1;
  check_dims(op, "weight", weight, 2);
  SXT_CHECK(weight.dim(0) == experts * y.dim(1) && weight.dim(1) == x.dim(1), Usage, op,
            ": weight is ", weight.shape(), ", must be ", Shape{experts * y.dim(1), x.dim(1)},
            " for ", experts, " experts");
}

// The operands of a product.
void check_types(std::string_view op, const Tensor& a, const Tensor& b,
                 const GroupedScales& scales) {
  const bool fp8 = is_fp8(a.dtype());
  SXT_CHECK(fp8 == is_fp8(b.dtype()) && fp8 == static_cast<bool>(scales.amax_a) &&
                fp8 == static_cast<bool>(scales.amax_b),
            Usage, op, ": fp8 operands have scales, others none; the operands are ",
            name_of(a.dtype()), " and ", name_of(b.dtype()));
  if (fp8) return;
  check_float(op, "the first operand", a);
  check_tensor(op, "the second operand", b, a.dtype(), b.shape());
}

double flops_of(const Tensor& y, const Tensor& x) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(x.dim(1));
}

}  // namespace

SXT_BACKENDS(grouped_linear)
SXT_BACKENDS(grouped_linear_backward_input)
SXT_BACKENDS(grouped_linear_backward_weight)

void grouped_linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets, const GroupedScales& scales) {
  check_grouped_linear("grouped_linear", y, x, weight, offsets);
  check_types("grouped_linear", x, weight, scales);
  if (!scales.amax_a) check_tensor("grouped_linear", "y", y, x.dtype(), y.shape());
  SXT_DISPATCH(stream,
               Work("grouped_linear")
                   .writes(y)
                   .reads(x, weight, offsets, scales.amax_a, scales.amax_b)
                   .flops(flops_of(y, x)),
               grouped_linear(stream, y, x, weight, offsets, scales));
}

void grouped_linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy,
                                   const Tensor& weight, const Tensor& offsets,
                                   const GroupedScales& scales) {
  check_grouped_linear("grouped_linear_backward_input", dy, dx, weight, offsets);
  check_types("grouped_linear_backward_input", dy, weight, scales);
  if (!scales.amax_a)
    check_tensor("grouped_linear_backward_input", "dx", dx, dy.dtype(), dx.shape());
  SXT_DISPATCH(stream,
               Work("grouped_linear_backward_input")
                   .writes(dx)
                   .reads(dy, weight, offsets, scales.amax_a, scales.amax_b)
                   .flops(flops_of(dy, dx)),
               grouped_linear_backward_input(stream, dx, dy, weight, offsets, scales));
}

void grouped_linear_backward_weight(Stream& stream, Tensor& dweight, const Tensor& dy,
                                    const Tensor& x, const Tensor& offsets, Write write,
                                    const GroupedScales& scales) {
  check_grouped_linear("grouped_linear_backward_weight", dy, x, dweight, offsets);
  check_types("grouped_linear_backward_weight", dy, x, scales);
  if (!scales.amax_a)
    check_gradient("grouped_linear_backward_weight", "dweight", dweight, x.dtype(),
                   dweight.shape());
  check_write("grouped_linear_backward_weight", write);
  SXT_DISPATCH(stream,
               Work("grouped_linear_backward_weight")
                   .writes(dweight)
                   .reads(dy, x, offsets, write == Write::Replace ? Tensor() : dweight,
                          scales.amax_a, scales.amax_b)
                   .flops(flops_of(dy, x)),
               grouped_linear_backward_weight(stream, dweight, dy, x, offsets, write, scales));
}

}  // namespace sextant
