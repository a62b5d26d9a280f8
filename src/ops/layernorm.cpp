#include "ops/layernorm.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& x, const Tensor& mean, const Tensor& inv_std,
           const Tensor& weight) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  check_tensor(op, "mean", mean, statistics_of(x.dtype()), {x.dim(0)});
  check_tensor(op, "inv_std", inv_std, statistics_of(x.dtype()), {x.dim(0)});
  check_tensor(op, "weight", weight, x.dtype(), {x.dim(1)});
}

}  // namespace

SXT_BACKENDS(layernorm)
SXT_BACKENDS(layernorm_backward)

void layernorm(Stream& stream, Tensor& y, Tensor& mean, Tensor& inv_std, Tensor& x,
               const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps) {
  check("layernorm", x, mean, inv_std, weight);
  check_tensor("layernorm", "bias", bias, x.dtype(), weight.shape());
  check_tensor("layernorm", "y", y, x.dtype(), x.shape());
  if (residual) check_tensor("layernorm", "residual", residual, x.dtype(), x.shape());
  SXT_DISPATCH(stream,
               Work("layernorm")
                   .writes(y, mean, inv_std, residual ? x : Tensor())
                   .reads(x, residual, weight, bias)
                   .flops((residual ? 5.0 : 4.0) * x.elements()),
               layernorm(stream, y, mean, inv_std, x, residual, weight, bias, eps));
}

void layernorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, Tensor& dbias,
                        const Tensor& dy, const Tensor& x, const Tensor& mean,
                        const Tensor& inv_std, const Tensor& weight, const Tensor& residual,
                        Write write_dw) {
  constexpr std::string_view kOp = "layernorm_backward";
  check(kOp, x, mean, inv_std, weight);
  check_tensor(kOp, "dx", dx, x.dtype(), x.shape());
  check_tensor(kOp, "dy", dy, x.dtype(), x.shape());
  check_gradient(kOp, "dweight", dweight, x.dtype(), weight.shape());
  check_gradient(kOp, "dbias", dbias, x.dtype(), weight.shape());
  if (residual) check_tensor(kOp, "residual", residual, x.dtype(), x.shape());
  check_write(kOp, write_dw);
  check_row_sums(kOp, x, 2);
  const bool adds = write_dw == Write::Add;
  SXT_DISPATCH(stream,
               Work("layernorm_backward")
                   .writes(dx, dweight, dbias)
                   .reads(dy, x, mean, inv_std, weight, residual)
                   .reads(adds ? dweight : Tensor(), adds ? dbias : Tensor())
                   .flops(8.0 * x.elements()),
               layernorm_backward(stream, dx, dweight, dbias, dy, x, mean, inv_std, weight,
                                  residual, write_dw));
}

}  // namespace sextant
