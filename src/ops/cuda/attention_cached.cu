#include "ops/attention.h"
#include "ops/cuda/attention_bounds.h"
#include "ops/cuda/attention_rows.h"
#include "ops/cuda/launch.cuh"

namespace sextant::cuda {
namespace {

constexpr int kThreads = 256;

// Keys and values of the new tokens, behind those already in the cache. `Pair` is two elements.
template <class Pair>
__global__ void __launch_bounds__(kThreads)
    append(Pair* keys, Pair* values, const Pair* qkv, const RowLayout from, const int64_t count,
           const int kv_heads, const int seq, const int64_t capacity, const int64_t past,
           const int pairs) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t pair = i % pairs, token = i / pairs % seq, head = i / pairs / seq;
  const int64_t source =
      head / kv_heads * from.batch + head % kv_heads * from.group + token * from.row + pair;
  const int64_t to = (head * capacity + past + token) * pairs + pair;
  keys[to] = qkv[source];
  values[to] = qkv[source + pairs];
}

template <class Pair>
void append_new(Stream& stream, Tensor& keys, Tensor& values, const Tensor& qkv, int64_t past,
                const Heads& heads) {
  RowLayout from = fused_kv_layout(heads);
  from.batch /= 2;
  from.group /= 2;
  from.row /= 2;
  const int64_t pairs = heads.head_dim / 2, count = heads.tokens() * heads.kv_heads * pairs;
  launch(stream, "attention_cached", append<Pair>, (count + kThreads - 1) / kThreads, kThreads, 0,
         reinterpret_cast<Pair*>(keys.raw()), reinterpret_cast<Pair*>(values.raw()),
         static_cast<const Pair*>(place_in(qkv, heads.group() * heads.head_dim)), from, count,
         static_cast<int>(heads.kv_heads), static_cast<int>(heads.seq), keys.dim(2), past,
         static_cast<int>(pairs));
}

}  // namespace

void attention_cached(Stream& stream, Tensor& out, Tensor& keys, Tensor& values, const Tensor& qkv,
                      int64_t past, const Heads& heads) {
  check_type("attention_cached", qkv.dtype());
  if (qkv.dtype() == DType::F32)
    append_new<float2>(stream, keys, values, qkv, past, heads);
  else
    append_new<uint32_t>(stream, keys, values, qkv, past, heads);

  Scratch scratch(stream, "attention_cached");
  const int64_t capacity = keys.dim(2);
  ForwardArgs args;
  args.sizes = sizes_of(heads, past + heads.seq);
  args.q = qkv.raw();
  args.k = keys.raw();
  args.v = values.raw();
  args.q_layout = query_layout(heads);
  args.kv_layout = {heads.kv_heads * capacity * heads.head_dim, capacity * heads.head_dim, 0,
                    heads.head_dim};
  args.out = result_in(out, 0, out_layout(heads));
  if (heads.seq == 1) {
    // One new token: the heads of a group are the rows of one tile and share its keys.
    args.sizes.seq = args.sizes.heads;
    args.sizes.heads = 1;
    args.q_layout.row = args.out.layout.row = heads.head_dim;
    args.ranges = cached_ranges(stream, scratch, heads.batch, heads.group(), past, 0, heads.window);
  } else {
    args.ranges = cached_ranges(stream, scratch, heads.batch, heads.seq, past, 1, heads.window);
  }
  attend(stream, qkv.dtype(), args);
}

}  // namespace sextant::cuda
