#include "ops/attention.h"

#include <algorithm>

#include "ops/attention_library.h"
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
  check_tensor(op, "lse", lse, statistics_of(qkv.dtype()), {heads.batch, heads.heads, heads.seq});
  check_tensor(op, "starts", starts, DType::I32, {heads.batch, heads.seq});
}

// Pairs of a query and a key in all rows and heads, each row one document. Shorter documents have
// fewer, but that is data.
double pairs(const Heads& heads, int64_t past = 0) {
  const int64_t window = heads.window > 0 ? heads.window : past + heads.seq;
  const double growing = std::clamp<int64_t>(window - past, 0, heads.seq);  // see all before them
  const double full = static_cast<double>(heads.seq) - growing;
  return heads.batch * heads.heads *
         (growing * past + growing * (growing + 1) / 2 + full * static_cast<double>(window));
}

// Of the cache only the tokens so far are touched, the new ones among them written first.
Work work_cached(const Tensor& out, const Tensor& keys, const Tensor& values, const Tensor& qkv,
                 int64_t past, const Heads& heads) {
  const int64_t token = heads.batch * heads.kv_heads * heads.head_dim * size_of(keys.dtype());
  const int64_t seen = heads.window > 0 ? std::min(past, heads.window - 1) + heads.seq
                                        : past + heads.seq;  // by any of the new tokens
  return Work("attention_cached")
      .writes(out)
      .writes_some(keys, heads.seq * token)
      .writes_some(values, heads.seq * token)
      .reads(qkv)
      .reads_some(keys, seen * token)
      .reads_some(values, seen * token)
      .flops(4 * pairs(heads, past) * heads.head_dim);
}

}  // namespace

SXT_BACKENDS(attention)
SXT_BACKENDS(attention_backward_in)
SXT_BACKENDS(attention_cached)

void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads) {
  check_rows("attention", out, lse, qkv, starts, heads);
  SXT_DISPATCH(stream,
               Work("attention")
                   .writes(out, lse)
                   .reads(qkv, starts)
                   .flops(4 * pairs(heads) * heads.head_dim),
               attention(stream, out, lse, qkv, starts, heads));
}

int64_t attention_workspace_bytes(const Heads& heads, DType dtype, DeviceKind target, Bits bits) {
  return target == DeviceKind::Cuda && bits == Bits::MayVary ? cudnn::workspace_bytes(heads, dtype)
                                                             : 0;
}

void attention_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& starts,
                        const Heads& heads) {
  check("attention_backward", qkv, heads);
  const int64_t bytes =
      attention_workspace_bytes(heads, qkv.dtype(), stream.device().modelled(), stream.bits());
  Tensor workspace;
  if (bytes > 0) workspace = stream.arena().allocate(Category::Workspace, DType::F8E4M3, {bytes});
  attention_backward_in(stream, dqkv, workspace, dout, out, lse, qkv, starts, heads);
}

void attention_backward_in(Stream& stream, Tensor& dqkv, Tensor& workspace, const Tensor& dout,
                           const Tensor& out, const Tensor& lse, const Tensor& qkv,
                           const Tensor& starts, const Heads& heads) {
  constexpr std::string_view kOp = "attention_backward";
  check_rows(kOp, out, lse, qkv, starts, heads);
  const int64_t bytes =
      attention_workspace_bytes(heads, qkv.dtype(), stream.device().modelled(), stream.bits());
  SXT_CHECK((workspace ? workspace.bytes() : 0) >= bytes, Usage, kOp, ": workspace of ",
            workspace ? workspace.bytes() : 0, " bytes, must be ", bytes);
  check_tensor(kOp, "dqkv", dqkv, qkv.dtype(), qkv.shape());
  check_tensor(kOp, "dout", dout, qkv.dtype(), out.shape());
  SXT_CHECK(dqkv.raw() != qkv.raw(), Usage,
            "attention_backward: dqkv is qkv, which is still read while dqkv is written");
  SXT_DISPATCH(stream,
               Work("attention_backward")
                   .writes(dqkv, workspace)
                   .reads(dout, out, lse, qkv, starts)
                   .flops(10 * pairs(heads) * heads.head_dim),
               attention_backward_in(stream, dqkv, workspace, dout, out, lse, qkv, starts, heads));
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
  SXT_DISPATCH(stream, work_cached(out, keys, values, qkv, past, heads),
               attention_cached(stream, out, keys, values, qkv, past, heads));
}

}  // namespace sextant
