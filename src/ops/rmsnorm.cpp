#include "ops/rmsnorm.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& x, const Tensor& inv_rms, const Tensor& weight) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  check_tensor(op, "inv_rms", inv_rms, statistics_of(x.dtype()), {x.dim(0)});
  check_tensor(op, "weight", weight, x.dtype(), {x.dim(1)});
}

}  // namespace

SXT_BACKENDS(rmsnorm)
SXT_BACKENDS(rmsnorm_backward)

void rmsnorm(Stream& stream, Tensor& y, Tensor& inv_rms, Tensor& x, const Tensor& residual,
             const Tensor& weight, double eps) {
  check("rmsnorm", x, inv_rms, weight);
  check_tensor("rmsnorm", "y", y, x.dtype(), x.shape());
  if (residual) check_tensor("rmsnorm", "residual", residual, x.dtype(), x.shape());
  SXT_DISPATCH(stream,
               Work("rmsnorm")
                   .writes(y, inv_rms, residual ? x : Tensor())
                   .reads(x, residual, weight)
                   .flops((residual ? 5.0 : 4.0) * x.elements()),
               rmsnorm(stream, y, inv_rms, x, residual, weight, eps));
}

void rmsnorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, const Tensor& dy,
                      const Tensor& x, const Tensor& inv_rms, const Tensor& weight,
                      const Tensor& residual, Write write_dw) {
  constexpr std::string_view kOp = "rmsnorm_backward";
  check(kOp, x, inv_rms, weight);
  check_tensor(kOp, "dx", dx, x.dtype(), x.shape());
  check_tensor(kOp, "dy", dy, x.dtype(), x.shape());
  check_gradient(kOp, "dweight", dweight, x.dtype(), weight.shape());
  if (residual) check_tensor(kOp, "residual", residual, x.dtype(), x.shape());
  check_write(kOp, write_dw);
  check_row_sums(kOp, x, 1);
  SXT_DISPATCH(stream,
               Work("rmsnorm_backward")
                   .writes(dx, dweight)
                   .reads(dy, x, inv_rms, weight, residual)
                   .reads(write_dw == Write::Add ? dweight : Tensor())
                   .flops(8.0 * x.elements()),
               rmsnorm_backward(stream, dx, dweight, dy, x, inv_rms, weight, residual, write_dw));
}

}  // namespace sextant
