#include "ops/attention.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& qkv, const Heads& heads) {
  check_heads(op, heads);
  check_float(op, "qkv", qkv);
  check_tensor(op, "qkv", qkv, qkv.dtype(), {heads.tokens(), heads.qkv_width()});
}

void check_rows(std::string_view op, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                const Tensor& starts, const Heads& heads) {
  check(op, qkv, heads);
  check_tensor(op, "out", out, qkv.dtype(), {heads.tokens(), heads.out_width()});
  check_tensor(op, "lse", lse, qkv.dtype(), {heads.batch, heads.heads, heads.seq});
  check_tensor(op, "starts", starts, DType::I32, {heads.batch, heads.seq});
}

}  // namespace

SXT_BACKENDS(attention)
SXT_BACKENDS(attention_backward)
SXT_BACKENDS(attention_cached)

void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads) {
  check_rows("attention", out, lse, qkv, starts, heads);
  SXT_DISPATCH(stream, attention(stream, out, lse, qkv, starts, heads));
}

void attention_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& starts,
                        const Heads& heads) {
  constexpr std::string_view kOp = "attention_backward";
  check_rows(kOp, out, lse, qkv, starts, heads);
  check_tensor(kOp, "dqkv", dqkv, qkv.dtype(), qkv.shape());
  check_tensor(kOp, "dout", dout, qkv.dtype(), out.shape());
  SXT_CHECK(dqkv.raw() != qkv.raw(), Usage,
            "attention_backward: dqkv is qkv, which is still read while dqkv is written");
  SXT_DISPATCH(stream, attention_backward(stream, dqkv, dout, out, lse, qkv, starts, heads));
}

void attention_cached(Stream& stream, Tensor& out, Tensor& keys, Tensor& values, const Tensor& qkv,
                      int64_t past, const Heads& heads) {
  constexpr std::string_view kOp = "attention_cached";
  check(kOp, qkv, heads);
  check_tensor(kOp, "out", out, qkv.dtype(), {heads.tokens(), heads.out_width()});
  check_dims(kOp, "keys", keys, 4);
  const int64_t capacity = keys.dim(2);
  check_tensor(kOp, "keys", keys, qkv.dtype(),
               {heads.batch, heads.kv_heads, capacity, heads.head_dim});
  check_tensor(kOp, "values", values, qkv.dtype(), keys.shape());
  SXT_CHECK(past >= 0 && past + heads.seq <= capacity, Usage, "attention_cached: past=", past,
            " and ", heads.seq, " new tokens, must fit the capacity of ", capacity);
  SXT_DISPATCH(stream, attention_cached(stream, out, keys, values, qkv, past, heads));
}

}  // namespace sextant
