// One thread per token and head, which is enough for columns that are copied and turned once.
#include "ops/latent_heads.h"

#include "ops/cuda/typed.h"

namespace sextant::cuda {
namespace {

struct Table {
  const int32_t* positions;
  const float *cos, *sin;
  int64_t rows, half;

  __device__ int64_t row(int64_t token) const {
    return min(max(int64_t{positions[token]}, int64_t{0}), rows - 1) * half;
  }
};

__device__ float get(const Typed& x, int64_t at) {
  float value[1];
  x.load(value, at);
  return value[0];
}
__device__ void put(const Typed& x, int64_t at, float value) {
  const float one[1] = {value};
  x.store(at, one);
}

__device__ void turn(const Typed& to, int64_t to_at, const Typed& from, int64_t from_at,
                     const Table& table, int64_t token, float sign, float scale) {
  const int64_t row = table.row(token);
  for (int64_t i = 0; i < table.half; ++i) {
    const float first = get(from, from_at + i), second = get(from, from_at + table.half + i);
    const float c = table.cos[row + i], s = sign * table.sin[row + i];
    put(to, to_at + i, (__fmul_rn(first, c) - __fmul_rn(second, s)) * scale);
    put(to, to_at + table.half + i, (__fmul_rn(second, c) + __fmul_rn(first, s)) * scale);
  }
}

__device__ int64_t thread() {
  return int64_t{blockIdx.x} * kBlock + threadIdx.x;
}
unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(ceil_div(threads, kBlock));
}

__global__ void __launch_bounds__(kBlock)
    join_kernel(Typed qkv, Typed q, Typed kv, Typed k_rope, Table table, LatentHeads h) {
  const int64_t at = thread(), dim = h.nope + h.rope, pair = h.nope + h.value;
  if (at >= h.tokens * h.heads) return;
  const int64_t token = at / h.heads, to = at * 3 * dim;
  const float scale = static_cast<float>(h.query_scale);
  for (int64_t i = 0; i < h.nope; ++i) {
    put(qkv, to + i, get(q, at * dim + i) * scale);
    put(qkv, to + dim + i, get(kv, at * pair + i));
  }
  turn(qkv, to + h.nope, q, at * dim + h.nope, table, token, 1, scale);
  turn(qkv, to + dim + h.nope, k_rope, token * h.rope, table, token, 1, 1);
  for (int64_t i = 0; i < dim; ++i)
    put(qkv, to + 2 * dim + i, i < h.value ? get(kv, at * pair + h.nope + i) : 0);
}

__global__ void __launch_bounds__(kBlock)
    split_kernel(Typed dq, Typed dkv, Typed dqkv, Table table, LatentHeads h) {
  const int64_t at = thread(), dim = h.nope + h.rope, pair = h.nope + h.value;
  if (at >= h.tokens * h.heads) return;
  const int64_t from = at * 3 * dim;
  const float scale = static_cast<float>(h.query_scale);
  for (int64_t i = 0; i < h.nope; ++i) {
    put(dq, at * dim + i, get(dqkv, from + i) * scale);
    put(dkv, at * pair + i, get(dqkv, from + dim + i));
  }
  turn(dq, at * dim + h.nope, dqkv, from + h.nope, table, at / h.heads, -1, scale);
  for (int64_t i = 0; i < h.value; ++i)
    put(dkv, at * pair + h.nope + i, get(dqkv, from + 2 * dim + i));
}

// A thread has a token and a pair of columns: their sums over the heads in order, turned back.
__global__ void __launch_bounds__(kBlock)
    shared_key_kernel(Typed dk_rope, Typed dqkv, Table table, LatentHeads h) {
  const int64_t at = thread(), dim = h.nope + h.rope;
  if (at >= h.tokens * table.half) return;
  const int64_t token = at / table.half, i = at % table.half;
  float first = 0, second = 0;
  for (int64_t head = 0; head < h.heads; ++head) {
    const int64_t from = (token * h.heads + head) * 3 * dim + dim + h.nope + i;
    first += get(dqkv, from);
    second += get(dqkv, from + table.half);
  }
  const float c = table.cos[table.row(token) + i], s = -table.sin[table.row(token) + i];
  put(dk_rope, token * h.rope + i, __fmul_rn(first, c) - __fmul_rn(second, s));
  put(dk_rope, token * h.rope + table.half + i, __fmul_rn(second, c) + __fmul_rn(first, s));
}

// A thread has an element of the result.
__global__ void __launch_bounds__(kBlock)
    values_kernel(Typed to, Typed from, int64_t elements, int64_t to_width, int64_t from_width) {
  const int64_t at = thread();
  if (at >= elements) return;
  const int64_t head = at / to_width, column = at % to_width;
  put(to, at, column < from_width ? get(from, head * from_width + column) : 0);
}

Table table_of(const Tensor& positions, const Tensor& cos, const Tensor& sin) {
  return {positions.data<int32_t>(), cos.data<float>(), sin.data<float>(), cos.dim(0), cos.dim(1)};
}

void copy_values(Stream& stream, const char* op, const Tensor& to, const Tensor& from,
                 int64_t to_width, int64_t from_width) {
  launch(stream, op, values_kernel, blocks_for(to.elements()), kBlock, Typed(op, to),
         Typed(op, from), to.elements(), to_width, from_width);
}

}  // namespace

void join_latent_heads(Stream& stream, Tensor& qkv, const Tensor& q, const Tensor& kv,
                       const Tensor& k_rope, const Tensor& positions, const Tensor& cos,
                       const Tensor& sin, const LatentHeads& heads) {
  constexpr const char* kOp = "join_latent_heads";
  launch(stream, kOp, join_kernel, blocks_for(heads.tokens * heads.heads), kBlock, Typed(kOp, qkv),
         Typed(kOp, q), Typed(kOp, kv), Typed(kOp, k_rope), table_of(positions, cos, sin), heads);
}

void join_latent_heads_backward(Stream& stream, Tensor& dq, Tensor& dkv, Tensor& dk_rope,
                                const Tensor& dqkv, const Tensor& positions, const Tensor& cos,
                                const Tensor& sin, const LatentHeads& heads) {
  constexpr const char* kOp = "join_latent_heads_backward";
  const Table table = table_of(positions, cos, sin);
  launch(stream, kOp, split_kernel, blocks_for(heads.tokens * heads.heads), kBlock, Typed(kOp, dq),
         Typed(kOp, dkv), Typed(kOp, dqkv), table, heads);
  launch(stream, kOp, shared_key_kernel, blocks_for(heads.tokens * table.half), kBlock,
         Typed(kOp, dk_rope), Typed(kOp, dqkv), table, heads);
}

void take_values(Stream& stream, Tensor& values, const Tensor& filled, const LatentHeads& heads) {
  copy_values(stream, "take_values", values, filled, heads.value, heads.head_dim());
}

void fill_values(Stream& stream, Tensor& filled, const Tensor& values, const LatentHeads& heads) {
  copy_values(stream, "fill_values", filled, values, heads.head_dim(), heads.value);
}

}  // namespace sextant::cuda
