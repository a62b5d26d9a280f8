#include "ops/attention_ranges.h"

#include "ops/cuda/attention_bounds.h"
#include "ops/cuda/attention_rows.h"

namespace sextant::cuda {

void attention_ranges(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& kv,
                      const Tensor& begin, const Tensor& end, const Heads& heads, int64_t kv_seq) {
  constexpr const char* kOp = "attention_ranges";
  check_type(kOp, qkv.dtype());
  Scratch scratch(stream, kOp);
  ForwardArgs args;
  args.sizes = sizes_of(heads, kv_seq);
  args.q = qkv.raw();
  args.k = kv.raw();
  args.v = place_in(kv, heads.head_dim);
  args.q_layout = query_layout(heads);
  args.kv_layout = packed_kv_layout(heads, kv_seq);
  args.ranges = given_ranges(stream, scratch, kOp, begin, end, heads, kv_seq);
  args.out = result_in(out, 0, out_layout(heads));
  args.lse = lse.data<float>();
  attend(stream, qkv.dtype(), args);
}

void attention_ranges_backward(Stream& stream, Tensor& dqkv, Tensor& dkv, const Tensor& dout,
                               const Tensor& delta, const Tensor& lse, const Tensor& qkv,
                               const Tensor& kv, const Tensor& begin, const Tensor& end,
                               const Heads& heads, int64_t kv_seq, Write write_dq,
                               Write write_dkv) {
  constexpr const char* kOp = "attention_ranges_backward";
  check_type(kOp, qkv.dtype());
  Scratch scratch(stream, kOp);
  BackwardArgs args;
  args.sizes = sizes_of(heads, kv_seq);
  args.q = qkv.raw();
  args.k = kv.raw();
  args.v = place_in(kv, heads.head_dim);
  args.dout = dout.raw();
  args.q_layout = query_layout(heads);
  args.kv_layout = packed_kv_layout(heads, kv_seq);
  args.dout_layout = out_layout(heads);
  args.ranges = given_ranges(stream, scratch, kOp, begin, end, heads, kv_seq);
  args.lse = lse.data<float>();
  args.delta = delta.data<float>();
  args.dq = result_in(dqkv, 0, args.q_layout);
  args.dk = result_in(dkv, 0, args.kv_layout);
  args.dv = result_in(dkv, heads.head_dim, args.kv_layout);
  args.write_dq = write_dq;
  args.write_dkv = write_dkv;
  attend_backward(stream, qkv.dtype(), args);
}

}  // namespace sextant::cuda
