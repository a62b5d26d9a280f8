#include "ops/split_heads.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check_parts(std::string_view op, const Tensor& parts, const Tensor& x) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  check_dims(op, "parts", parts, 3);
  const int64_t ranks = parts.dim(0);
  SXT_CHECK(ranks > 0 && x.dim(1) % ranks == 0, Usage, op, ": ", x.dim(1), " columns for ", ranks,
            " ranks, must divide evenly");
  check_tensor(op, "parts", parts, x.dtype(), {ranks, x.dim(0), x.dim(1) / ranks});
}

void check_copies(std::string_view op, const Tensor& repeated, const Tensor& qkv,
                  const Heads& heads, int64_t copies) {
  check_heads(op, heads);
  SXT_CHECK(copies > 0 && heads.group() % copies == 0, Usage, op, ": ", copies, " copies, must",
            " divide the ", heads.group(), " query heads of a key-value head");
  check_float(op, "qkv", qkv);
  check_tensor(op, "qkv", qkv, qkv.dtype(), {heads.tokens(), heads.qkv_width()});
  check_tensor(op, "out", repeated, qkv.dtype(),
               {heads.tokens(), heads.out_width() + copies * heads.kv_width()});
}

}  // namespace

SXT_BACKENDS(split_heads)
SXT_BACKENDS(join_heads)
SXT_BACKENDS(repeat_kv)
SXT_BACKENDS(repeat_kv_backward)

void split_heads(Stream& stream, Tensor& parts, const Tensor& x) {
  check_parts("split_heads", parts, x);
  SXT_DISPATCH(stream, Work("split_heads").writes(parts).reads(x), split_heads(stream, parts, x));
}

void join_heads(Stream& stream, Tensor& x, const Tensor& parts) {
  check_parts("join_heads", parts, x);
  SXT_DISPATCH(stream, Work("join_heads").writes(x).reads(parts), join_heads(stream, x, parts));
}

void repeat_kv(Stream& stream, Tensor& out, const Tensor& qkv, const Heads& heads, int64_t copies) {
  check_copies("repeat_kv", out, qkv, heads, copies);
  SXT_DISPATCH(stream, Work("repeat_kv").writes(out).reads(qkv),
               repeat_kv(stream, out, qkv, heads, copies));
}

void repeat_kv_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Heads& heads,
                        int64_t copies) {
  check_copies("repeat_kv_backward", dout, dqkv, heads, copies);
  SXT_DISPATCH(stream,
               Work("repeat_kv_backward")
                   .writes(dqkv)
                   .reads(dout)
                   .flops(1.0 * (copies - 1) * heads.tokens() * heads.kv_width()),
               repeat_kv_backward(stream, dqkv, dout, heads, copies));
}

}  // namespace sextant
