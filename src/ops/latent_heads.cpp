#include "ops/latent_heads.h"

#include <algorithm>

#include "ops/check.h"

namespace sextant {
namespace {

void check_sizes(std::string_view op, const LatentHeads& heads) {
  SXT_CHECK(heads.tokens > 0 && heads.heads > 0 && heads.nope > 0 && heads.rope > 0 &&
                heads.rope % 2 == 0 && heads.value > 0 && heads.value <= heads.head_dim() &&
                heads.query_scale > 0,
            Usage, op, ": heads=", heads.heads, " nope=", heads.nope, " rope=", heads.rope,
            " value=", heads.value, " query_scale=", heads.query_scale,
            ", must be positive, rope even and value at most nope + rope");
}

void check_parts(std::string_view op, const Tensor& qkv, const Tensor& q, const Tensor& kv,
                 const Tensor& k_rope, const LatentHeads& heads) {
  check_sizes(op, heads);
  check_float(op, "qkv", qkv);
  const DType dtype = qkv.dtype();
  check_tensor(op, "qkv", qkv, dtype, {heads.tokens, heads.heads * 3 * heads.head_dim()});
  check_tensor(op, "q", q, dtype, {heads.tokens, heads.heads * heads.head_dim()});
  check_tensor(op, "kv", kv, dtype, {heads.tokens, heads.heads * heads.kv()});
  check_tensor(op, "k_rope", k_rope, dtype, {heads.tokens, heads.rope});
}

void check_table(std::string_view op, const Tensor& positions, const Tensor& cos, const Tensor& sin,
                 DType dtype, const LatentHeads& heads) {
  check_tensor(op, "positions", positions, DType::I32, {heads.tokens});
  check_dims(op, "cos", cos, 2);
  check_tensor(op, "cos", cos, statistics_of(dtype), {cos.dim(0), heads.rope / 2});
  check_tensor(op, "sin", sin, cos.dtype(), cos.shape());
}

// Of the table a row for each token, at most all.
Work table_work(const char* op, const Tensor& positions, const Tensor& cos, const Tensor& sin,
                const LatentHeads& heads) {
  const int64_t rows = std::min(cos.bytes(), heads.tokens * heads.rope / 2 * size_of(cos.dtype()));
  return Work(op).reads(positions).reads_some(cos, rows).reads_some(sin, rows).flops(
      6.0 * static_cast<double>(heads.tokens * heads.heads * heads.rope));
}

void check_values(std::string_view op, const Tensor& values, const Tensor& filled,
                  const LatentHeads& heads) {
  check_sizes(op, heads);
  check_float(op, "values", values);
  check_tensor(op, "values", values, values.dtype(), {heads.tokens, heads.heads * heads.value});
  check_tensor(op, "filled", filled, values.dtype(),
               {heads.tokens, heads.heads * heads.head_dim()});
}

}  // namespace

SXT_BACKENDS(join_latent_heads)
SXT_BACKENDS(join_latent_heads_backward)
SXT_BACKENDS(take_values)
SXT_BACKENDS(fill_values)

void join_latent_heads(Stream& stream, Tensor& qkv, const Tensor& q, const Tensor& kv,
                       const Tensor& k_rope, const Tensor& positions, const Tensor& cos,
                       const Tensor& sin, const LatentHeads& heads) {
  constexpr const char* kOp = "join_latent_heads";
  check_parts(kOp, qkv, q, kv, k_rope, heads);
  check_table(kOp, positions, cos, sin, qkv.dtype(), heads);
  SXT_DISPATCH(stream, table_work(kOp, positions, cos, sin, heads).writes(qkv).reads(q, kv, k_rope),
               join_latent_heads(stream, qkv, q, kv, k_rope, positions, cos, sin, heads));
}

void join_latent_heads_backward(Stream& stream, Tensor& dq, Tensor& dkv, Tensor& dk_rope,
                                const Tensor& dqkv, const Tensor& positions, const Tensor& cos,
                                const Tensor& sin, const LatentHeads& heads) {
  constexpr const char* kOp = "join_latent_heads_backward";
  check_parts(kOp, dqkv, dq, dkv, dk_rope, heads);
  check_table(kOp, positions, cos, sin, dqkv.dtype(), heads);
  SXT_DISPATCH(
      stream, table_work(kOp, positions, cos, sin, heads).writes(dq, dkv, dk_rope).reads(dqkv),
      join_latent_heads_backward(stream, dq, dkv, dk_rope, dqkv, positions, cos, sin, heads));
}

void take_values(Stream& stream, Tensor& values, const Tensor& filled, const LatentHeads& heads) {
  check_values("take_values", values, filled, heads);
  SXT_DISPATCH(stream, Work("take_values").writes(values).reads_some(filled, values.bytes()),
               take_values(stream, values, filled, heads));
}

void fill_values(Stream& stream, Tensor& filled, const Tensor& values, const LatentHeads& heads) {
  check_values("fill_values", values, filled, heads);
  SXT_DISPATCH(stream, Work("fill_values").writes(filled).reads(values),
               fill_values(stream, filled, values, heads));
}

}  // namespace sextant
