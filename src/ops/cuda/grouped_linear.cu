// Blocks of threads find their expert and rows from the offsets in device memory, so that the host
// knows only a bound of their number: each expert has at most one tile that is not full.
#include "ops/grouped_linear.h"

#include "ops/cuda/grouped_hopper.h"
#include "ops/cuda/grouped_product.cuh"
#include "ops/cuda/grouped_rows.cuh"
#include "ops/cuda/launch.cuh"

namespace sextant::cuda {
namespace {

// Writes one or two neighbours, rounded once.
template <bool kPairs, class G>
__device__ void put(G* to, float first, float second, bool has_second, Write write) {
  if constexpr (kPairs) {
    float values[2] = {first, second}, before[2] = {};
    if (write == Write::Add) load(before, to);
    if (write == Write::Add) values[0] = before[0] + first, values[1] = before[1] + second;
    store(to, values);
  } else {
    to[0] = rounded<G>(write == Write::Add ? widened(to[0]) + first : first);
    if (has_second) to[1] = rounded<G>(write == Write::Add ? widened(to[1]) + second : second);
  }
}

// c[row] = a[row] times the weights of its expert, which are [n, depth] or, along n, [depth, n].
template <class Tile, Along kWeight, class T>
__global__ void __launch_bounds__(kTileThreads, Tile::kBlocks)
    rows_kernel(T* c, const T* a, const T* weight, Groups groups, int64_t n, int64_t depth,
                int64_t n_tiles) {
  constexpr int kSide = Tile::kSide;
  if (blockIdx.x == 0) groups.report_bad();
  const RowTile tile = find_tile<kSide>(groups, blockIdx.x / n_tiles);
  if (tile.expert < 0) return;
  const int64_t first_n = blockIdx.x % n_tiles * kSide;
  const int64_t first_row = tile.rows.begin + tile.number * kSide;
  const Operand<T> rows{a + first_row * depth, depth,
                        static_cast<int>(min(int64_t{kSide}, tile.rows.end - first_row))};
  constexpr bool kByK = kWeight == Along::K;
  const Operand<T> columns{weight + tile.expert * n * depth + first_n * (kByK ? depth : 1),
                           kByK ? depth : n, static_cast<int>(min(int64_t{kSide}, n - first_n))};
  T* out = c + first_row * n + first_n;
  Tile::run(rows, columns, depth, [&](int row, int column, float first, float second) {
    put<Tile::kPairs>(out + row * n + column, first, second, column + 1 < columns.count,
                      Write::Replace);
  });
}

// dweight of an expert = dy^T * x over its rows.
template <class Tile, class T, class G>
__global__ void __launch_bounds__(kTileThreads, Tile::kBlocks)
    weight_kernel(G* dweight, const T* dy, const T* x, Groups groups, int64_t out, int64_t in,
                  int64_t out_tiles, int64_t in_tiles, Write write) {
  constexpr int kSide = Tile::kSide;
  if (blockIdx.x == 0) groups.report_bad();
  const int64_t expert = blockIdx.x / (out_tiles * in_tiles);
  const int64_t first_out = blockIdx.x / in_tiles % out_tiles * kSide;
  const int64_t first_in = blockIdx.x % in_tiles * kSide;
  const Rows rows = groups.of(static_cast<int>(expert));
  if (rows.begin == rows.end && write == Write::Add) return;
  const Operand<T> left{dy + rows.begin * out + first_out, out,
                        static_cast<int>(min(int64_t{kSide}, out - first_out))};
  const Operand<T> right{x + rows.begin * in + first_in, in,
                         static_cast<int>(min(int64_t{kSide}, in - first_in))};
  G* to = dweight + (expert * out + first_out) * in + first_in;
  Tile::run(
      left, right, rows.end - rows.begin, [&](int row, int column, float first, float second) {
        put<Tile::kPairs>(to + row * in + column, first, second, column + 1 < right.count, write);
      });
}

// f(Tile{}) for elements of T.
template <class T, Along kA, Along kB, class F>
void with_tile(bool is_packed, F&& f) {
  if constexpr (std::is_same_v<T, float>)
    f(F32Tile<kA, kB>{});
  else if (is_packed)
    f(TensorCoreTile<T, kA, kB, true>{});
  else
    f(TensorCoreTile<T, kA, kB, false>{});
}

// c: [rows, n]   a: [rows, depth]
template <Along kWeight>
void multiply_rows(Stream& stream, const char* op, Tensor& c, const Tensor& a, const Tensor& weight,
                   const Tensor& offsets) {
  const int64_t rows = c.dim(0), n = c.dim(1), depth = a.dim(1);
  with_compute(op, a.dtype(), [&]<class T>(T) {
    const bool is_packed =
        can_pack<T>(n, {c.raw(), a.raw(), weight.raw()}) && can_pack<T>(depth, {});
    with_tile<T, Along::K, kWeight>(is_packed, [&]<class Tile>(Tile) {
      const Groups groups(stream, op, offsets, rows);
      const int64_t n_tiles = ceil_div(n, Tile::kSide);
      const int64_t blocks = (ceil_div(rows, Tile::kSide) + groups.experts) * n_tiles;
      if (rows == 0 || n == 0) return;
      launch(stream, op, rows_kernel<Tile, kWeight, T>, blocks, kTileThreads, Tile::kShared,
             c.data<T>(), a.data<T>(), weight.data<T>(), groups, n, depth, n_tiles);
    });
  });
}

}  // namespace

void grouped_linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets, const GroupedScales&) {
  if (grouped_hopper(stream, "grouped_linear", GroupedProduct::Forward, y, x, weight, offsets,
                     Write::Replace))
    return;
  multiply_rows<Along::K>(stream, "grouped_linear", y, x, weight, offsets);
}

void grouped_linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy,
                                   const Tensor& weight, const Tensor& offsets,
                                   const GroupedScales&) {
  constexpr const char* kOp = "grouped_linear_backward_input";
  if (grouped_hopper(stream, kOp, GroupedProduct::InputGradient, dx, dy, weight, offsets,
                     Write::Replace))
    return;
  multiply_rows<Along::Side>(stream, kOp, dx, dy, weight, offsets);
}

void grouped_linear_backward_weight(Stream& stream, Tensor& dweight, const Tensor& dy,
                                    const Tensor& x, const Tensor& offsets, Write write,
                                    const GroupedScales&) {
  constexpr const char* kOp = "grouped_linear_backward_weight";
  const int64_t out = dy.dim(1), in = x.dim(1);
  if (out == 0 || in == 0) return;
  if (grouped_hopper(stream, kOp, GroupedProduct::WeightGradient, dweight, dy, x, offsets, write))
    return;
  with_compute(kOp, x.dtype(), [&]<class T>(T) {
    const bool is_packed =
        can_pack<T>(out, {dweight.raw(), dy.raw(), x.raw()}) && can_pack<T>(in, {});
    with_either<T>(kOp, dweight.dtype(), [&]<class G>(G) {
      with_tile<T, Along::Side, Along::Side>(is_packed, [&]<class Tile>(Tile) {
        const Groups groups(stream, kOp, offsets, x.dim(0));
        const int64_t out_tiles = ceil_div(out, Tile::kSide), in_tiles = ceil_div(in, Tile::kSide);
        launch(stream, kOp, weight_kernel<Tile, T, G>, groups.experts * out_tiles * in_tiles,
               kTileThreads, Tile::kShared, dweight.data<G>(), dy.data<T>(), x.data<T>(), groups,
               out, in, out_tiles, in_tiles, write);
      });
    });
  });
}

}  // namespace sextant::cuda
