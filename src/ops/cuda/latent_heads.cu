#include "ops/latent_heads.h"

#include "ops/cuda/bad_rows.h"
#include "ops/cuda/typed.h"
#include "ops/fault_texts.h"

namespace sextant::cuda {
namespace {

// A table of rotations; positions outside of it are reported and take the nearest row.
struct Table {
  const int32_t* positions;
  const float *cos, *sin;
  int64_t rows, half;
  Report report;

  // By one thread of a token.
  __device__ void report_bad(int64_t token) const {
    const auto is_bad = [this](int32_t position) { return position < 0 || position >= rows; };
    if (is_bad(positions[token]) && is_first_bad(positions, token, is_bad))
      report(positions[token], token, rows);
  }
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

// Column i of the columns from `at` on, turned by the token's angles times `sign`.
__device__ float turned(const Typed& from, int64_t at, int64_t i, const Table& table, int64_t token,
                        float sign) {
  const int64_t pair = i % table.half, place = table.row(token) + pair;
  const float first = get(from, at + pair), second = get(from, at + table.half + pair);
  const float c = table.cos[place], s = sign * table.sin[place];
  return i < table.half ? __fmul_rn(first, c) - __fmul_rn(second, s)
                        : __fmul_rn(second, c) + __fmul_rn(first, s);
}

__device__ int64_t thread() {
  return int64_t{blockIdx.x} * kBlock + threadIdx.x;
}
unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(ceil_div(threads, kBlock));
}

// Rows: heads of tokens. Columns: of a query, a key and a value.
__global__ void join_kernel(Typed qkv, Typed q, Typed kv, Typed k_rope, Table table,
                            LatentHeads h) {
  const int64_t dim = h.nope + h.rope, pair = h.nope + h.value;
  const float scale = static_cast<float>(h.query_scale);
  for_cells(h.tokens * h.heads, 3 * dim, [&](int64_t at, int64_t column) {
    const int64_t token = at / h.heads, i = column % dim;
    if (column == 0 && at % h.heads == 0) table.report_bad(token);
    float value = 0;
    if (column >= 2 * dim)
      value = i < h.value ? get(kv, at * pair + h.nope + i) : 0;
    else if (column >= dim)
      value = i < h.nope ? get(kv, at * pair + i)
                         : turned(k_rope, token * h.rope, i - h.nope, table, token, 1);
    else if (i < h.nope)
      value = get(q, at * dim + i) * scale;
    else
      value = turned(q, at * dim + h.nope, i - h.nope, table, token, 1) * scale;
    put(qkv, at * 3 * dim + column, value);
  });
}

// Columns: of the gradient of a query, then of those of a key and a value that are a head's own.
__global__ void split_kernel(Typed dq, Typed dkv, Typed dqkv, Table table, LatentHeads h) {
  const int64_t dim = h.nope + h.rope, pair = h.nope + h.value;
  const float scale = static_cast<float>(h.query_scale);
  for_cells(h.tokens * h.heads, dim + pair, [&](int64_t at, int64_t column) {
    const int64_t token = at / h.heads, from = at * 3 * dim;
    if (column == 0 && at % h.heads == 0) table.report_bad(token);
    if (column >= dim) {
      const int64_t i = column - dim;
      put(dkv, at * pair + i, get(dqkv, from + dim + (i < h.nope ? i : dim + i - h.nope)));
    } else if (column < h.nope) {
      put(dq, at * dim + column, get(dqkv, from + column) * scale);
    } else {
      put(dq, at * dim + column,
          turned(dqkv, from + h.nope, column - h.nope, table, token, -1) * scale);
    }
  });
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

Table table_of(Stream& stream, const char* op, const Tensor& positions, const Tensor& cos,
               const Tensor& sin) {
  check_statistics(op, cos);
  return {positions.data<int32_t>(),
          cos.data<float>(),
          sin.data<float>(),
          cos.dim(0),
          cos.dim(1),
          Report(stream, Fault::Usage, op, kBadPosition)};
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
  const Cells cells(heads.tokens * heads.heads, 3 * heads.head_dim());
  launch(stream, kOp, join_kernel, cells.grid, cells.block, Typed(kOp, qkv), Typed(kOp, q),
         Typed(kOp, kv), Typed(kOp, k_rope), table_of(stream, kOp, positions, cos, sin), heads);
}

void join_latent_heads_backward(Stream& stream, Tensor& dq, Tensor& dkv, Tensor& dk_rope,
                                const Tensor& dqkv, const Tensor& positions, const Tensor& cos,
                                const Tensor& sin, const LatentHeads& heads) {
  constexpr const char* kOp = "join_latent_heads_backward";
  const Table table = table_of(stream, kOp, positions, cos, sin);
  const Cells cells(heads.tokens * heads.heads, heads.head_dim() + heads.kv());
  launch(stream, kOp, split_kernel, cells.grid, cells.block, Typed(kOp, dq), Typed(kOp, dkv),
         Typed(kOp, dqkv), table, heads);
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
