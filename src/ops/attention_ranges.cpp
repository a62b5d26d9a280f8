#include "ops/attention_ranges.h"

#include "ops/check.h"

namespace sextant {
namespace {

// What forward and backward share.
void check(std::string_view op, const Tensor& lse, const Tensor& qkv, const Tensor& kv,
           const Tensor& begin, const Tensor& end, const Heads& heads, int64_t kv_seq) {
  check_heads(op, heads);
  SXT_CHECK(kv_seq > 0, Usage, op, ": kv_seq=", kv_seq, ", must be positive");
  check_float(op, "qkv", qkv);
  check_tensor(op, "qkv", qkv, qkv.dtype(), {heads.tokens(), heads.qkv_width()});
  check_tensor(op, "kv", kv, qkv.dtype(), {heads.batch * kv_seq, heads.kv_width()});
  check_tensor(op, "lse", lse, statistics_of(qkv.dtype()), {heads.batch, heads.heads, heads.seq});
  check_tensor(op, "begin", begin, DType::I32, {heads.batch, heads.seq});
  check_tensor(op, "end", end, DType::I32, {heads.batch, heads.seq});
}

// Of all pairs of a query and a key: which ones meet is data, so this is the most there can be.
double flops_of(double per_pair, const Heads& heads, int64_t kv_seq) {
  return per_pair * heads.tokens() * heads.heads * heads.in_window(kv_seq) * heads.head_dim;
}

Work work_backward(const Tensor& dqkv, const Tensor& dkv, const Tensor& qkv, const Heads& heads,
                   int64_t kv_seq, Write write_dq, Write write_dkv) {
  const int64_t queries = heads.tokens() * heads.out_width();
  const int64_t gradients = queries * size_of(dqkv.dtype());
  Work work("attention_ranges_backward");
  work.writes_some(dqkv, gradients).writes(dkv).reads_some(qkv, queries * size_of(qkv.dtype()));
  if (write_dq == Write::Chain) work.reads_some(dqkv, gradients);
  if (write_dkv == Write::Add) work.reads(dkv);
  return work.flops(flops_of(10, heads, kv_seq));
}

}  // namespace

SXT_BACKENDS(attention_ranges)
SXT_BACKENDS(attention_ranges_backward)
SXT_BACKENDS(attention_delta)
SXT_BACKENDS(attention_merge)

void attention_ranges(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& kv,
                      const Tensor& begin, const Tensor& end, const Heads& heads, int64_t kv_seq) {
  constexpr std::string_view kOp = "attention_ranges";
  check(kOp, lse, qkv, kv, begin, end, heads, kv_seq);
  check_gradient(kOp, "out", out, qkv.dtype(), {heads.tokens(), heads.out_width()});
  SXT_DISPATCH(stream,
               Work("attention_ranges")
                   .writes(out, lse)
                   .reads_some(qkv, out.elements() * size_of(qkv.dtype()))
                   .reads(kv, begin, end)
                   .flops(flops_of(4, heads, kv_seq)),
               attention_ranges(stream, out, lse, qkv, kv, begin, end, heads, kv_seq));
}

void attention_ranges_backward(Stream& stream, Tensor& dqkv, Tensor& dkv, const Tensor& dout,
                               const Tensor& delta, const Tensor& lse, const Tensor& qkv,
                               const Tensor& kv, const Tensor& begin, const Tensor& end,
                               const Heads& heads, int64_t kv_seq, Write write_dq,
                               Write write_dkv) {
  constexpr std::string_view kOp = "attention_ranges_backward";
  check(kOp, lse, qkv, kv, begin, end, heads, kv_seq);
  check_gradient(kOp, "dqkv", dqkv, qkv.dtype(), qkv.shape());
  check_tensor(kOp, "dkv", dkv, dqkv.dtype(), kv.shape());
  check_tensor(kOp, "dout", dout, qkv.dtype(), {heads.tokens(), heads.out_width()});
  check_tensor(kOp, "delta", delta, lse.dtype(), lse.shape());
  SXT_CHECK(write_dq != Write::Add, Usage, kOp,
            ": Write::Add is not possible for dq, only Replace and Chain");
  SXT_CHECK(write_dkv != Write::Chain, Usage, kOp,
            ": Write::Chain is not possible for dkv, only Replace and Add");
  SXT_CHECK(dqkv.raw() != qkv.raw() && dkv.raw() != kv.raw(), Usage, kOp,
            ": dqkv is qkv or dkv is kv, which are still read while the others are written");
  SXT_DISPATCH(stream,
               work_backward(dqkv, dkv, qkv, heads, kv_seq, write_dq, write_dkv)
                   .reads(dout, delta, lse, kv, begin, end),
               attention_ranges_backward(stream, dqkv, dkv, dout, delta, lse, qkv, kv, begin, end,
                                         heads, kv_seq, write_dq, write_dkv));
}

void attention_delta(Stream& stream, Tensor& delta, const Tensor& dout, const Tensor& out,
                     const Heads& heads) {
  constexpr std::string_view kOp = "attention_delta";
  check_heads(kOp, heads);
  check_float(kOp, "dout", dout);
  check_tensor(kOp, "dout", dout, dout.dtype(), {heads.tokens(), heads.out_width()});
  check_gradient(kOp, "out", out, dout.dtype(), dout.shape());
  check_tensor(kOp, "delta", delta, statistics_of(dout.dtype()),
               {heads.batch, heads.heads, heads.seq});
  SXT_DISPATCH(stream,
               Work("attention_delta").writes(delta).reads(dout, out).flops(2.0 * out.elements()),
               attention_delta(stream, delta, dout, out, heads));
}

void attention_merge(Stream& stream, Tensor& out, Tensor& lse, const Tensor& out_b,
                     const Tensor& lse_b) {
  constexpr std::string_view kOp = "attention_merge";
  check_float(kOp, "lse", lse);
  check_dims(kOp, "lse", lse, 3);
  check_tensor(kOp, "lse_b", lse_b, lse.dtype(), lse.shape());
  check_dims(kOp, "out", out, 2);
  SXT_CHECK(out.dim(0) == lse.dim(0) * lse.dim(2) && lse.dim(1) > 0 && out.dim(1) % lse.dim(1) == 0,
            Usage, kOp, ": out is ", out.shape(), " and lse ", lse.shape(),
            ", must be [batch * seq, heads * head_dim] and [batch, heads, seq]");
  check_float(kOp, "out_b", out_b);
  check_tensor(kOp, "lse", lse, statistics_of(out_b.dtype()), lse.shape());
  check_gradient(kOp, "out", out, out_b.dtype(), out.shape());
  check_tensor(kOp, "out_b", out_b, out_b.dtype(), out.shape());
  SXT_DISPATCH(stream,
               Work("attention_merge")
                   .writes(out, lse)
                   .reads(out, lse, out_b, lse_b)
                   .flops(3.0 * out.elements()),
               attention_merge(stream, out, lse, out_b, lse_b));
}

}  // namespace sextant
