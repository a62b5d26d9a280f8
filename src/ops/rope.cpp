#include "ops/rope.h"

#include <algorithm>

#include "ops/check.h"

namespace sextant {
namespace {

// Of qkv the columns of queries and keys; of the table a row for each token, at most all.
Work work_of(const Tensor& qkv, const Tensor& positions, const Tensor& cos, const Tensor& sin,
             const Heads& heads) {
  const int64_t elements = heads.tokens() * heads.qk_width(), size = size_of(qkv.dtype());
  const int64_t looked_up =
      std::min(cos.bytes(), heads.tokens() * heads.head_dim / 2 * size_of(cos.dtype()));
  return Work("rope")
      .writes_some(qkv, elements * size)
      .reads_some(qkv, elements * size)
      .reads(positions)
      .reads_some(cos, looked_up)
      .reads_some(sin, looked_up)
      .flops(3.0 * elements);
}

}  // namespace

SXT_BACKENDS(rope_table)
SXT_BACKENDS(rope)

void rope_table(Stream& stream, Tensor& cos, Tensor& sin, const RopeFrequencies& frequencies) {
  check_float("rope_table", "cos", cos);
  SXT_CHECK(cos.shape().dims() == 2, Usage, "rope_table: cos is ", cos.shape(),
            ", must be [positions, head_dim / 2]");
  check_tensor("rope_table", "sin", sin, cos.dtype(), cos.shape());
  SXT_CHECK(frequencies.theta > 0 && frequencies.factor > 0, Usage,
            "rope_table: theta=", frequencies.theta, " factor=", frequencies.factor,
            ", both must be positive");
  SXT_CHECK(frequencies.factor == 1 || frequencies.slowing != RopeSlowing::Llama3 ||
                (frequencies.low_freq_factor > 0 &&
                 frequencies.high_freq_factor > frequencies.low_freq_factor &&
                 frequencies.original_seq > 0),
            Usage, "rope_table: low_freq_factor=", frequencies.low_freq_factor,
            " high_freq_factor=", frequencies.high_freq_factor,
            " original_seq=", frequencies.original_seq,
            ", must be positive and low_freq_factor < high_freq_factor");
  SXT_CHECK(frequencies.slowing != RopeSlowing::Yarn ||
                (frequencies.theta > 1 && frequencies.beta_slow > 0 &&
                 frequencies.beta_fast > frequencies.beta_slow && frequencies.original_seq > 0 &&
                 frequencies.attention_factor > 0),
            Usage, "rope_table: theta=", frequencies.theta, " beta_slow=", frequencies.beta_slow,
            " beta_fast=", frequencies.beta_fast, " original_seq=", frequencies.original_seq,
            " attention_factor=", frequencies.attention_factor,
            ", must be positive, theta above 1 and beta_slow < beta_fast");
  SXT_DISPATCH(stream, Work("rope_table").writes(cos, sin).flops(3.0 * cos.elements()),
               rope_table(stream, cos, sin, frequencies));
}

void rope(Stream& stream, Tensor& qkv, const Tensor& positions, const Tensor& cos,
          const Tensor& sin, const Heads& heads, RopeDirection direction) {
  check_heads("rope", heads);
  check_float("rope", "qkv", qkv);
  check_tensor("rope", "qkv", qkv, qkv.dtype(), {heads.tokens(), heads.qkv_width()});
  check_tensor("rope", "positions", positions, DType::I32, {heads.tokens()});
  SXT_CHECK(cos.shape().dims() == 2 && cos.dim(1) == heads.head_dim / 2, Usage, "rope: cos is ",
            cos.shape(), ", must be [positions, ", heads.head_dim / 2, "]");
  check_tensor("rope", "cos", cos, statistics_of(qkv.dtype()), cos.shape());
  check_tensor("rope", "sin", sin, cos.dtype(), cos.shape());
  SXT_DISPATCH(stream, work_of(qkv, positions, cos, sin, heads),
               rope(stream, qkv, positions, cos, sin, heads, direction));
}

}  // namespace sextant
