#include "ops/head_norm.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& qkv, const Tensor& inv_rms, const Tensor& q_weight,
           const Tensor& k_weight, const Heads& heads) {
  check_heads(op, heads);
  check_float(op, "qkv", qkv);
  check_tensor(op, "qkv", qkv, qkv.dtype(), {heads.tokens(), heads.qkv_width()});
  check_tensor(op, "inv_rms", inv_rms, statistics_of(qkv.dtype()),
               {heads.tokens(), heads.kv_heads * (heads.group() + 1)});
  check_tensor(op, "q_weight", q_weight, qkv.dtype(), {heads.head_dim});
  check_tensor(op, "k_weight", k_weight, qkv.dtype(), {heads.head_dim});
}

// Values pass by: of qkv, and of dy where it becomes dqkv itself, only queries and keys are
// touched.
Work work_backward(const Tensor& dqkv, const Tensor& dy, const Tensor& qkv, const Heads& heads) {
  const int64_t elements = heads.tokens() * heads.qk_width();
  const int64_t some = elements * size_of(qkv.dtype());
  const int64_t of_dy = dqkv.raw() == dy.raw() ? some : dy.bytes();
  return Work("head_norm_backward")
      .writes_some(dqkv, of_dy)
      .reads_some(dy, of_dy)
      .reads_some(qkv, some)
      .flops(8.0 * elements);
}

}  // namespace

SXT_BACKENDS(head_norm)
SXT_BACKENDS(head_norm_backward)

void head_norm(Stream& stream, Tensor& y, Tensor& inv_rms, const Tensor& qkv,
               const Tensor& q_weight, const Tensor& k_weight, const Heads& heads, double eps) {
  check("head_norm", qkv, inv_rms, q_weight, k_weight, heads);
  check_tensor("head_norm", "y", y, qkv.dtype(), qkv.shape());
  SXT_DISPATCH(stream,
               Work("head_norm")
                   .writes(y, inv_rms)
                   .reads(qkv, q_weight, k_weight)
                   .flops(4.0 * heads.tokens() * heads.qk_width()),
               head_norm(stream, y, inv_rms, qkv, q_weight, k_weight, heads, eps));
}

void head_norm_backward(Stream& stream, Tensor& dqkv, Tensor& dq_weight, Tensor& dk_weight,
                        const Tensor& dy, const Tensor& qkv, const Tensor& inv_rms,
                        const Tensor& q_weight, const Tensor& k_weight, const Heads& heads,
                        Write write_dw) {
  constexpr std::string_view kOp = "head_norm_backward";
  check(kOp, qkv, inv_rms, q_weight, k_weight, heads);
  check_tensor(kOp, "dqkv", dqkv, qkv.dtype(), qkv.shape());
  check_tensor(kOp, "dy", dy, qkv.dtype(), qkv.shape());
  check_gradient(kOp, "dq_weight", dq_weight, qkv.dtype(), {heads.head_dim});
  check_gradient(kOp, "dk_weight", dk_weight, qkv.dtype(), {heads.head_dim});
  check_write(kOp, write_dw);
  const bool adds = write_dw == Write::Add;
  SXT_DISPATCH(stream,
               work_backward(dqkv, dy, qkv, heads)
                   .writes(dq_weight, dk_weight)
                   .reads(inv_rms, q_weight, k_weight)
                   .reads(adds ? dq_weight : Tensor(), adds ? dk_weight : Tensor()),
               head_norm_backward(stream, dqkv, dq_weight, dk_weight, dy, qkv, inv_rms, q_weight,
                                  k_weight, heads, write_dw));
}

}  // namespace sextant
