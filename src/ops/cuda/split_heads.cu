#include "ops/split_heads.h"

#include "ops/cuda/copy_cells.h"

namespace sextant::cuda {
namespace {

// A row is the part of one rank of one token; x has them in the order of tokens, parts in that of
// ranks.
struct Split {
  int64_t ranks, tokens, width;  // width of a part, in units
  __device__ Place operator()(int64_t row, int64_t column) const {
    const int64_t token = row / ranks, rank = row % ranks;
    return {(rank * tokens + token) * width + column, row * width + column};
  }
};
struct Joined {
  Split split;
  __device__ Place operator()(int64_t row, int64_t column) const {
    const Place place = split(row, column);
    return {place.from, place.to};
  }
};

// A row is a copy of a key-value head of a token: its queries, its key and its value.
struct Repeated {
  int64_t queries, pair, copies;  // units of the queries of one copy; of a key and its value
  __device__ Place operator()(int64_t row, int64_t column) const {
    const int64_t head = row / copies, copy = row % copies;
    const int64_t from = head * (copies * queries + pair);
    return {row * (queries + pair) + column,
            from + (column < queries ? copy : copies - 1) * queries + column};
  }
};

int64_t unit_of_parts(const Tensor& parts, const Tensor& x) {
  return unit_of({parts.dim(2) * size_of(x.dtype())}, {parts.raw(), x.raw()});
}

// A row is a key-value head of a token. Queries are copied; keys and values are summed over their
// copies in order.
template <class T, int N>
__global__ void repeat_backward_kernel(T* dqkv, const T* dout, int64_t rows, int64_t packs,
                                       int64_t queries, int64_t pair, int64_t copies) {
  for_cells(rows, packs, [&](int64_t row, int64_t pack) {
    const int64_t column = pack * N;
    const T* from = dout + row * copies * (queries + pair);
    float sum[N];
    if (column < copies * queries) {
      const int64_t copy = column / queries;
      load(sum, from + copy * (queries + pair) + column % queries);
    } else {
      from += column - copies * queries + queries;
      load(sum, from);
      for (int64_t copy = 1; copy < copies; ++copy) {
        float more[N];
        load(more, from + copy * (queries + pair));
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += more[i];
      }
    }
    store(dqkv + row * (copies * queries + pair) + column, sum);
  });
}

}  // namespace

void split_heads(Stream& stream, Tensor& parts, const Tensor& x) {
  if (parts.elements() == 0) return;
  const int64_t unit = unit_of_parts(parts, x);
  const Split places{parts.dim(0), parts.dim(1), parts.dim(2) * size_of(x.dtype()) / unit};
  copy_cells(stream, "split_heads", parts.raw(), x.raw(), unit, places.tokens * places.ranks,
             places.width, places);
}

void join_heads(Stream& stream, Tensor& x, const Tensor& parts) {
  if (parts.elements() == 0) return;
  const int64_t unit = unit_of_parts(parts, x);
  const Split places{parts.dim(0), parts.dim(1), parts.dim(2) * size_of(x.dtype()) / unit};
  copy_cells(stream, "join_heads", x.raw(), parts.raw(), unit, places.tokens * places.ranks,
             places.width, Joined{places});
}

void repeat_kv(Stream& stream, Tensor& out, const Tensor& qkv, const Heads& heads, int64_t copies) {
  const int64_t head = heads.head_dim * size_of(qkv.dtype());
  const int64_t unit = unit_of({head}, {out.raw(), qkv.raw()});
  const Repeated places{heads.group() / copies * head / unit, 2 * head / unit, copies};
  copy_cells(stream, "repeat_kv", out.raw(), qkv.raw(), unit,
             heads.tokens() * heads.kv_heads * copies, places.queries + places.pair, places);
}

void repeat_kv_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Heads& heads,
                        int64_t copies) {
  const int64_t queries = heads.group() / copies * heads.head_dim, pair = 2 * heads.head_dim;
  const int64_t rows = heads.tokens() * heads.kv_heads, width = copies * queries + pair;
  with_compute("repeat_kv_backward", dqkv.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(heads.head_dim, {dqkv.raw(), dout.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const Cells cells(rows, width / N);
                   launch(stream, "repeat_kv_backward", repeat_backward_kernel<T, N>, cells.grid,
                          cells.block, dqkv.data<T>(), dout.data<T>(), rows, width / N, queries,
                          pair, copies);
                 });
  });
}

}  // namespace sextant::cuda
