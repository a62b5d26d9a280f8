#include "ops/moe_permute.h"

#include "ops/cuda/bad_rows.h"
#include "ops/cuda/block_scan.h"
#include "ops/cuda/copy_cells.h"
#include "ops/fault_texts.h"
#include "ops/moe_capacity.h"

namespace sextant::cuda {
namespace {

// Places of pairs, or kDropped; any other that is not valid is reported and read as row 0.
struct Places {
  const int32_t* place;
  int64_t pairs, chosen;
  Report report;

  Places(Stream& stream, const char* op, const Tensor& places, int64_t tokens)
      : place(places.data<int32_t>()),
        pairs(places.dim(0)),
        chosen(tokens == 0 ? 0 : pairs / tokens),
        report(stream, Fault::Internal, op, kBadPlace) {}

  __device__ bool is_bad(int32_t value) const {
    return value != kDropped && (value < 0 || value >= pairs);
  }
  // kDropped, or a row.
  __device__ int64_t at(int64_t pair) const { return is_bad(place[pair]) ? 0 : place[pair]; }
  // By one thread of a pair.
  __device__ void report_bad(int64_t pair) const {
    const auto is_bad_place = [this](int32_t value) { return is_bad(value); };
    if (is_bad(place[pair]) && is_first_bad(place, pair, is_bad_place))
      report(place[pair], pair, pairs);
  }
};

template <class Unit>
__global__ void permute_kernel(Unit* rows, const Unit* x, Places places, int64_t tokens,
                               int64_t units) {
  for_cells(tokens, units, [&](int64_t token, int64_t unit) {
    const Unit value = x[token * units + unit];
    for (int64_t j = 0; j < places.chosen; ++j) {
      const int64_t pair = token * places.chosen + j;
      if (unit == 0) places.report_bad(pair);
      const int64_t row = places.at(pair);
      if (row != kDropped) rows[row * units + unit] = value;
    }
  });
}

// y[t] = sum over j of the rows of its pairs, times gates if there are some, in ascending j,
// without those that were dropped.
template <class T, int N>
__global__ void combine_kernel(T* y, const T* rows, const float* gates, Places places,
                               int64_t tokens, int64_t packs) {
  for_cells(tokens, packs, [&](int64_t token, int64_t pack) {
    float sum[N] = {};
    for (int64_t j = 0; j < places.chosen; ++j) {
      const int64_t pair = token * places.chosen + j;
      if (pack == 0) places.report_bad(pair);
      const int64_t row = places.at(pair);
      if (row == kDropped) continue;
      const float gate = gates != nullptr ? gates[pair] : 1;
      float values[N];
      load(values, rows + (row * packs + pack) * N);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += gate * values[i];
    }
    store(y + (token * packs + pack) * N, sum);
  });
}

// A block has a pair. A thread reads its elements of the row before it writes them: drows may be
// rows.
template <class T, int N>
__global__ void __launch_bounds__(kBlock)
    combine_backward_kernel(T* drows, float* dgates, const T* dy, const T* rows, const float* gates,
                            Places places, int64_t packs) {
  const int64_t pair = blockIdx.x, token = pair / places.chosen;
  if (threadIdx.x == 0) places.report_bad(pair);
  const int64_t row = places.at(pair);
  if (row == kDropped) {
    if (threadIdx.x == 0) dgates[pair] = 0;
    return;
  }
  const float gate = gates[pair];
  float sum = 0;
  for (int64_t pack = threadIdx.x; pack < packs; pack += blockDim.x) {
    float above[N], own[N];
    load(above, dy + (token * packs + pack) * N);
    load(own, rows + (row * packs + pack) * N);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum += above[i] * own[i];
      above[i] *= gate;
    }
    store(drows + (row * packs + pack) * N, above);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) dgates[pair] = sum;
}

// counts[source, expert] of some experts, as sources x experts.
struct Counts {
  const int32_t* counts;
  int64_t sources, stride, experts;

  Counts(const Tensor& all, const Range& some)
      : counts(all.data<int32_t>() + some.begin),
        sources(all.dim(0)),
        stride(all.dim(1)),
        experts(some.size()) {}
  __device__ int64_t at(int64_t source, int64_t expert) const {
    return max(0, counts[source * stride + expert]);
  }
  __device__ int64_t rows_of(int64_t expert) const {
    int64_t rows = 0;
    for (int64_t source = 0; source < sources; ++source) rows += at(source, expert);
    return rows;
  }
};

__global__ void __launch_bounds__(kScan) offsets_kernel(int32_t* offsets, Counts counts) {
  if (threadIdx.x == 0) offsets[0] = 0;
  scan(
      counts.experts, [&](int64_t e) { return counts.rows_of(e); },
      [&](int64_t e, int64_t before, int64_t rows) {
        offsets[e + 1] = static_cast<int32_t>(before + rows);
      });
}

// The first row of each (source, expert) in either order; by_source has the end of all rows, too.
//   by_source: [sources * experts + 1]   by_expert: [sources * experts]
__global__ void __launch_bounds__(kScan)
    starts_kernel(int32_t* by_source, int32_t* by_expert, Counts counts) {
  const int64_t blocks = counts.sources * counts.experts;
  scan(
      blocks, [&](int64_t i) { return counts.at(i / counts.experts, i % counts.experts); },
      [&](int64_t i, int64_t before, int64_t rows) {
        by_source[i] = static_cast<int32_t>(before);
        if (i == blocks - 1) by_source[blocks] = static_cast<int32_t>(before + rows);
      });
  scan(
      blocks, [&](int64_t i) { return counts.at(i % counts.sources, i / counts.sources); },
      [&](int64_t i, int64_t before, int64_t) {
        by_expert[i % counts.sources * counts.experts + i / counts.sources] =
            static_cast<int32_t>(before);
      });
}

// moved[r]: the row, in the order (expert, source), of row r in the order (source, expert); -1 for
// one that is in no block.
__global__ void __launch_bounds__(kBlock)
    rows_kernel(int32_t* moved, const int32_t* by_source, const int32_t* by_expert, int64_t blocks,
                int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int64_t begin = 0, end = blocks + 1;  // of the starts, the first beyond `row` is among them
  while (begin < end) {
    const int64_t middle = (begin + end) / 2;
    if (by_source[middle] <= row)
      begin = middle + 1;
    else
      end = middle;
  }
  int64_t to = -1;
  if (begin <= blocks) to = int64_t{by_expert[begin - 1]} + row - by_source[begin - 1];
  moved[row] = static_cast<int32_t>(to < rows ? to : -1);
}

enum class Order { ByExpert, BySource };  // of the output

template <class Unit, Order kTo>
__global__ void group_kernel(Unit* to, const Unit* from, const int32_t* moved, int64_t rows,
                             int64_t units) {
  for_cells(rows, units, [&](int64_t row, int64_t unit) {
    const int64_t other = moved[row];
    if (other < 0) return;
    if constexpr (kTo == Order::ByExpert)
      to[other * units + unit] = from[row * units + unit];
    else
      to[row * units + unit] = from[other * units + unit];
  });
}

template <Order kTo>
void group(Stream& stream, const char* op, Tensor& to, const Tensor& from, const Tensor& counts,
           const Range& experts) {
  const Counts all(counts, experts);
  const int64_t rows = from.dim(0), blocks = all.sources * all.experts;
  if (rows == 0 || blocks == 0) return;
  int32_t* by_source = whole_numbers(stream, op, 2 * blocks + 1 + rows);
  int32_t *by_expert = by_source + blocks + 1, *moved = by_expert + blocks;
  launch(stream, op, starts_kernel, 1, kScan, by_source, by_expert, all);
  launch(stream, op, rows_kernel, grid_of(rows), kBlock, moved, by_source, by_expert, blocks, rows);
  const int64_t bytes = from.dim(1) * size_of(from.dtype());
  const int64_t unit = unit_of({bytes}, {to.raw(), from.raw()});
  with_unit(unit, [&]<class Unit>(Unit) {
    const Cells cells(rows, bytes / unit);
    launch(stream, op, group_kernel<Unit, kTo>, cells.grid, cells.block,
           reinterpret_cast<Unit*>(to.raw()), reinterpret_cast<const Unit*>(from.raw()), moved,
           rows, bytes / unit);
  });
}

void combine(Stream& stream, const char* op, Tensor& y, const Tensor& rows, const float* gates,
             const Tensor& places) {
  const Places all(stream, op, places, y.dim(0));
  with_compute(op, y.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(y.dim(1), {y.raw(), rows.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const Cells cells(y.dim(0), y.dim(1) / N);
                   launch(stream, op, combine_kernel<T, N>, cells.grid, cells.block, y.data<T>(),
                          rows.data<T>(), gates, all, y.dim(0), y.dim(1) / N);
                 });
  });
}

}  // namespace

void moe_permute(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places) {
  const Places all(stream, "moe_permute", places, x.dim(0));
  const int64_t bytes = x.dim(1) * size_of(x.dtype());
  const int64_t unit = unit_of({bytes}, {rows.raw(), x.raw()});
  with_unit(unit, [&]<class Unit>(Unit) {
    const Cells cells(x.dim(0), bytes / unit);
    launch(stream, "moe_permute", permute_kernel<Unit>, cells.grid, cells.block,
           reinterpret_cast<Unit*>(rows.raw()), reinterpret_cast<const Unit*>(x.raw()), all,
           x.dim(0), bytes / unit);
  });
}

void moe_permute_backward(Stream& stream, Tensor& dx, const Tensor& drows, const Tensor& places) {
  combine(stream, "moe_permute_backward", dx, drows, nullptr, places);
}

void moe_combine(Stream& stream, Tensor& y, const Tensor& rows, const Tensor& gates,
                 const Tensor& places) {
  check_statistics("moe_combine", gates);
  combine(stream, "moe_combine", y, rows, gates.data<float>(), places);
}

void moe_combine_backward(Stream& stream, Tensor& drows, Tensor& dgates, const Tensor& dy,
                          const Tensor& rows, const Tensor& gates, const Tensor& places) {
  constexpr const char* kOp = "moe_combine_backward";
  const Places all(stream, kOp, places, dy.dim(0));
  with_compute(kOp, dy.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(dy.dim(1), {drows.raw(), dy.raw(), rows.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const int64_t packs = dy.dim(1) / N;
                   const int64_t threads =
                       std::clamp<int64_t>(ceil_div(packs, kWarp) * kWarp, kWarp, kBlock);
                   launch(stream, kOp, combine_backward_kernel<T, N>,
                          static_cast<unsigned>(all.pairs), static_cast<unsigned>(threads),
                          drows.data<T>(), dgates.data<float>(), dy.data<T>(), rows.data<T>(),
                          gates.data<float>(), all, packs);
                 });
  });
}

void moe_offsets(Stream& stream, Tensor& offsets, const Tensor& counts, const Range& experts) {
  launch(stream, "moe_offsets", offsets_kernel, 1, kScan, offsets.data<int32_t>(),
         Counts(counts, experts));
}

void moe_group(Stream& stream, Tensor& by_expert, const Tensor& by_source, const Tensor& counts,
               const Range& experts) {
  group<Order::ByExpert>(stream, "moe_group", by_expert, by_source, counts, experts);
}

void moe_ungroup(Stream& stream, Tensor& by_source, const Tensor& by_expert, const Tensor& counts,
                 const Range& experts) {
  group<Order::BySource>(stream, "moe_ungroup", by_source, by_expert, counts, experts);
}

}  // namespace sextant::cuda
