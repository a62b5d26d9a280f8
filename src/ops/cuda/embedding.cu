#include "ops/embedding.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <span>

#include "ops/cuda/bad_rows.h"
#include "ops/fault_texts.h"

namespace sextant::cuda {
namespace {

// Ids of which a table holds a part. One outside of all ids is in no part.
struct Ids {
  const int32_t* id;
  int64_t rows, vocab, first, end;
  Report report;

  Ids(Stream& stream, const char* op, const Tensor& ids, const Tensor& table, const TableRows& part)
      : id(ids.data<int32_t>()),
        rows(ids.dim(0)),
        vocab(part.whole > 0 ? part.whole : table.dim(0)),
        first(part.first),
        end(std::min(vocab, first + table.dim(0))),
        report(stream, Fault::Data, op, kBadTokenId) {}

  __device__ bool is_own(int64_t row) const { return id[row] >= first && id[row] < end; }
  __device__ int64_t place(int64_t row) const { return id[row] - first; }  // in the part
  // By one thread of a row.
  __device__ void report_bad(int64_t row) const {
    const auto is_bad = [this](int32_t value) { return value < 0 || value >= vocab; };
    if (is_bad(id[row]) && is_first_bad(id, row, is_bad)) report(id[row], row, vocab);
  }
};

template <class T, int N>
__global__ void embedding_kernel(T* y, const T* table, Ids ids, int64_t packs, Write write) {
  for_cells(ids.rows, packs, [&](int64_t row, int64_t pack) {
    if (pack == 0) ids.report_bad(row);
    T* out = y + (row * packs + pack) * N;
    const bool is_own = ids.is_own(row);
    if (!is_own && write == Write::Add) return;
    Pack<T, N> values = {};
    if (is_own)
      values = *reinterpret_cast<const Pack<T, N>*>(table + (ids.place(row) * packs + pack) * N);
    if (write == Write::Add) {
      float sum[N];
      load(sum, out);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += widened(values.values[i]);
      return store(out, sum);
    }
    *reinterpret_cast<Pack<T, N>*>(out) = values;
  });
}

// Key: a row's place in the table, or `nowhere`, which sorts behind all places.
__global__ void key_kernel(uint32_t* keys, uint32_t* rows, Ids ids, uint32_t nowhere) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= ids.rows) return;
  ids.report_bad(row);
  keys[row] = ids.is_own(row) ? static_cast<uint32_t>(ids.place(row)) : nowhere;
  rows[row] = static_cast<uint32_t>(row);
}

// Rows ordered by (place, row).
struct Order {
  const uint32_t* keys;
  const uint32_t* rows;
  int64_t count;
  uint32_t nowhere;
};

// The block at the first of a place's rows adds them all up in their order, one chain a column; its
// loads run some rows ahead of the sums.
template <class G, class T, int N>
__global__ void backward_kernel(G* dtable, const T* dy, Order order, int64_t packs,
                                int64_t blocks_of_row, Write write) {
  constexpr int kAhead = 8;
  const int64_t i = int64_t{blockIdx.x} / blocks_of_row;
  const int64_t pack = int64_t{blockIdx.x} % blocks_of_row * blockDim.x + threadIdx.x;
  const uint32_t key = order.keys[i];
  if (key == order.nowhere || (i > 0 && order.keys[i - 1] == key) || pack >= packs) return;
  float sum[N] = {};
  int same = kAhead;
  for (int64_t next = i; same == kAhead; next += kAhead) {
    Pack<T, N> values[kAhead];
    bool is_same[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      is_same[j] = next + j < order.count && order.keys[next + j] == key;
    same = 0;  // of the next ones
#pragma unroll
    for (int j = 0; j < kAhead; ++j) same += is_same[j];  // they lie together
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (j < same)
        values[j] = *reinterpret_cast<const Pack<T, N>*>(
            dy + (int64_t{order.rows[next + j]} * packs + pack) * N);
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (j < same)
#pragma unroll
        for (int e = 0; e < N; ++e) sum[e] += widened(values[j].values[e]);
  }
  G* out = dtable + (int64_t{key} * packs + pack) * N;
  if (write == Write::Add) {
    float before[N];
    load(before, out);
#pragma unroll
    for (int e = 0; e < N; ++e) sum[e] = before[e] + sum[e];
  }
  store(out, sum);
}

int bits_of(uint32_t value) {
  return std::max(1, static_cast<int>(std::bit_width(value)));
}

// Sorts the rows by their places, in the shared scratch.
Order sort_rows(Stream& stream, const Ids& ids, int64_t table_rows) {
  const std::span<std::byte> scratch = stream.shared_scratch();
  const auto nowhere = static_cast<uint32_t>(table_rows);
  const int64_t stride = ceil_div(ids.rows, 64) * 64;  // keeps arrays aligned
  auto* words = reinterpret_cast<uint32_t*>(scratch.data());
  cub::DoubleBuffer<uint32_t> keys(words, words + stride);
  cub::DoubleBuffer<uint32_t> rows(words + 2 * stride, words + 3 * stride);
  const size_t used = static_cast<size_t>(4 * stride) * sizeof(uint32_t);
  size_t needed = 0;
  const auto sort = [&](void* memory) {
    check(cub::DeviceRadixSort::SortPairs(memory, needed, keys, rows, static_cast<int>(ids.rows), 0,
                                          bits_of(nowhere), queue_of(stream)),
          "embedding_backward");
  };
  sort(nullptr);
  SXT_CHECK(used + needed <= scratch.size(), Usage, "embedding_backward: ", ids.rows,
            " rows at once, sorting them needs ", used + needed, " bytes of scratch, there are ",
            scratch.size());
  launch(stream, "embedding_backward", key_kernel, grid_of(ids.rows), kBlock, keys.Current(),
         rows.Current(), ids, nowhere);
  sort(scratch.data() + used);
  return {keys.Current(), rows.Current(), ids.rows, nowhere};
}

template <class G, class T, int N>
void add_rows(Stream& stream, Tensor& dtable, const Tensor& dy, const Order& order, Write write) {
  const int64_t packs = dtable.dim(1) / N;
  const int64_t threads = std::min<int64_t>(ceil_div(packs, kWarp) * kWarp, kBlock);
  const int64_t blocks_of_row = ceil_div(packs, threads);
  launch(stream, "embedding_backward", backward_kernel<G, T, N>,
         static_cast<unsigned>(order.count * blocks_of_row), static_cast<unsigned>(threads),
         dtable.data<G>(), dy.data<T>(), order, packs, blocks_of_row, write);
}

}  // namespace

void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write,
               const TableRows& part) {
  const int64_t hidden = table.dim(1);
  const Ids all(stream, "embedding", ids, table, part);
  with_compute("embedding", table.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(hidden, {y.raw(), table.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const Cells cells(all.rows, hidden / N);
                   launch(stream, "embedding", embedding_kernel<T, N>, cells.grid, cells.block,
                          y.data<T>(), table.data<T>(), all, hidden / N, write);
                 });
  });
}

void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, const TableRows& part) {
  const Ids all(stream, "embedding_backward", ids, dtable, part);
  if (write == Write::Replace)
    check(cudaMemsetAsync(dtable.raw(), 0, static_cast<size_t>(dtable.bytes()), queue_of(stream)),
          "embedding_backward");
  if (all.rows == 0 || dtable.dim(1) == 0) return;
  const Order order = sort_rows(stream, all, dtable.dim(0));
  with_compute("embedding_backward", dy.dtype(), [&]<class T>(T) {
    with_either<T>("embedding_backward", dtable.dtype(), [&]<class G>(G) {
      with_pack<T>(can_pack<T>(dtable.dim(1), {dtable.raw(), dy.raw()}),
                   [&]<int N>(std::integral_constant<int, N>) {
                     add_rows<G, T, N>(stream, dtable, dy, order, write);
                   });
    });
  });
}

}  // namespace sextant::cuda
