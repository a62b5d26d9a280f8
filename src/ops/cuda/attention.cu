#include "ops/attention.h"

#include "ops/attention_library.h"
#include "ops/cuda/attention_bounds.h"
#include "ops/cuda/attention_rows.h"
#include "tensor/cuda/queue.h"

namespace sextant::cuda {
namespace {

// The ranges of keys, and what cuDNN takes: it computes the rows of the batch that are one
// document. Whether a row is one is known on the device only, so kernels of our own, which pass
// over the rows that are done, always follow.
struct Prepared {
  const int2* ranges = nullptr;
  cudnn::Call call;
  DoneRows done;  // if cuDNN takes the call
};

Prepared prepare(Stream& stream, Scratch& scratch, DType dtype, const Tensor& starts,
                 const Heads& heads) {
  RowLengths lengths;
  lengths.copies = cudnn::lengths_per_row(heads);
  lengths.data = scratch.take<int32_t>(heads.batch * lengths.copies);
  lengths.are_all_seq = scratch.take<int32_t>(1);
  Prepared out;
  out.ranges = causal_ranges(stream, scratch, starts, heads, lengths);
  out.call = {queue_of(stream), lengths.data, {}, dtype, heads};
  out.done = {lengths.data, lengths.copies, lengths.are_all_seq};
  return out;
}

}  // namespace

void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads) {
  check_type("attention", qkv.dtype());
  Scratch scratch(stream, "attention");
  Prepared prepared = prepare(stream, scratch, qkv.dtype(), starts, heads);
  prepared.call.workspace = scratch.rest();
  const int64_t key = heads.group() * heads.head_dim;
  ForwardArgs args;
  if (cudnn::attention(prepared.call, out.raw(), lse.data<float>(), qkv.raw()))
    args.done = prepared.done;
  args.sizes = sizes_of(heads, heads.seq);
  args.q = qkv.raw();
  args.k = place_in(qkv, key);
  args.v = place_in(qkv, key + heads.head_dim);
  args.q_layout = query_layout(heads);
  args.kv_layout = fused_kv_layout(heads);
  args.ranges = prepared.ranges;
  args.out = result_in(out, 0, out_layout(heads));
  args.lse = lse.data<float>();
  attend(stream, qkv.dtype(), args);
}

void attention_backward_in(Stream& stream, Tensor& dqkv, Tensor& workspace, const Tensor& dout,
                           const Tensor& out, const Tensor& lse, const Tensor& qkv,
                           const Tensor& starts, const Heads& heads) {
  check_type("attention_backward", qkv.dtype());
  Scratch scratch(stream, "attention_backward");
  Prepared prepared = prepare(stream, scratch, qkv.dtype(), starts, heads);
  if (workspace)
    prepared.call.workspace = {workspace.raw(), static_cast<size_t>(workspace.bytes())};
  const int64_t key = heads.group() * heads.head_dim, value = key + heads.head_dim;
  BackwardArgs args;
  if (stream.bits() == Bits::MayVary &&
      cudnn::attention_backward(prepared.call, dqkv.raw(), dout.raw(), out.raw(), lse.data<float>(),
                                qkv.raw()))
    args.done = prepared.done;
  args.sizes = sizes_of(heads, heads.seq);
  args.q = qkv.raw();
  args.k = place_in(qkv, key);
  args.v = place_in(qkv, value);
  args.dout = dout.raw();
  args.q_layout = query_layout(heads);
  args.kv_layout = fused_kv_layout(heads);
  args.dout_layout = out_layout(heads);
  args.ranges = prepared.ranges;
  args.lse = lse.data<float>();
  float* delta = scratch.take<float>(lse.elements());
  write_delta(stream, delta, dout, out, heads, args.done);
  args.delta = delta;
  args.dq = result_in(dqkv, 0, args.q_layout);
  args.dk = result_in(dqkv, key, args.kv_layout);
  args.dv = result_in(dqkv, value, args.kv_layout);
  attend_backward(stream, qkv.dtype(), args);
}

}  // namespace sextant::cuda
