#include "ops/attention.h"

#include "ops/cuda/attention_bounds.h"
#include "ops/cuda/attention_rows.h"

namespace sextant::cuda {

void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads) {
  check_type("attention", qkv.dtype());
  Scratch scratch(stream, "attention");
  const int64_t key = heads.group() * heads.head_dim;
  ForwardArgs args;
  args.sizes = sizes_of(heads, heads.seq);
  args.q = qkv.raw();
  args.k = place_in(qkv, key);
  args.v = place_in(qkv, key + heads.head_dim);
  args.q_layout = query_layout(heads);
  args.kv_layout = fused_kv_layout(heads);
  args.ranges = causal_ranges(stream, scratch, starts, heads);
  args.out = result_in(out, 0, out_layout(heads));
  args.lse = lse.data<float>();
  attend(stream, qkv.dtype(), args);
}

void attention_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& starts,
                        const Heads& heads) {
  check_type("attention_backward", qkv.dtype());
  Scratch scratch(stream, "attention_backward");
  const int64_t key = heads.group() * heads.head_dim, value = key + heads.head_dim;
  BackwardArgs args;
  args.sizes = sizes_of(heads, heads.seq);
  args.q = qkv.raw();
  args.k = place_in(qkv, key);
  args.v = place_in(qkv, value);
  args.dout = dout.raw();
  args.q_layout = query_layout(heads);
  args.kv_layout = fused_kv_layout(heads);
  args.dout_layout = out_layout(heads);
  args.ranges = causal_ranges(stream, scratch, starts, heads);
  args.lse = lse.data<float>();
  float* delta = scratch.take<float>(lse.elements());
  write_delta(stream, delta, dout, out, heads);
  args.delta = delta;
  args.dq = result_in(dqkv, 0, args.q_layout);
  args.dk = result_in(dqkv, key, args.kv_layout);
  args.dv = result_in(dqkv, value, args.kv_layout);
  attend_backward(stream, qkv.dtype(), args);
}

}  // namespace sextant::cuda
