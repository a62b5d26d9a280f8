// A block of threads has a tile of 128 x 128 of x in registers: 16 threads a row, 8 elements each,
// 8 rows a thread. It writes the codes of rows as they are, and puts those of columns into shared
// memory, from where they are taken transposed.
#include "ops/quantize_turned.h"

#include "ops/cuda/fp8.cuh"
#include "ops/cuda/transpose_bytes.cuh"

namespace sextant::cuda {

decltype(sextant::quantize_turned) quantize_turned;
decltype(sextant::quantize_turned_tiles) quantize_turned_tiles;

namespace {

constexpr int kCodes = 8;                     // elements of a thread in a row
constexpr int kAcross = kTileBytes / kCodes;  // threads of a row
constexpr int kDown = kBlock / kAcross;       // rows at once
constexpr int kRowsOfThread = kTileBytes / kDown;
static_assert(kAcross == 16 && kRowsOfThread == 8);

struct Turned {
  int64_t rows, columns;
  float* amax;         // of all; null: each tile its own
  const float* used;   // or null
  uint32_t* found;     // or null
  float* row_amax;     // [rows, row_tiles]
  float* column_amax;  // [columns, column_tiles]
  int64_t row_tiles, column_tiles;
};

template <class Q>
struct Codes {
  Q* q;  // or null
  Q* turned;
};

template <class T>
__device__ void load_tile(float (&x)[kRowsOfThread][kCodes], const T* from, const Turned& to,
                          int64_t row, int64_t column) {
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int64_t at = row + i * kDown;
    if (at < to.rows && column < to.columns) {
      load(x[i], from + at * to.columns + column);
    } else {
#pragma unroll
      for (int j = 0; j < kCodes; ++j) x[i][j] = 0;
    }
  }
}

__device__ inline uint32_t largest_of(const float (&x)[kCodes]) {
  uint32_t most = 0;
#pragma unroll
  for (int j = 0; j < kCodes; ++j) most = max(most, magnitude(x[j]));
  return most;
}

// Sets factors of the columns from the largest values in all rows of the tile.
template <class Q>
__device__ void find_columns(float (&factors)[kCodes], const float (&x)[kRowsOfThread][kCodes],
                             const Turned& to, int64_t column) {
  __shared__ uint32_t of_warps[kBlock / kWarp][kTileBytes];
  __shared__ float of_columns[kTileBytes];
  const int thread = static_cast<int>(threadIdx.x), across = thread % kAcross;
#pragma unroll
  for (int j = 0; j < kCodes; ++j) {
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) most = max(most, magnitude(x[i][j]));
    most = max(most, __shfl_xor_sync(0xffffffff, most, kAcross));
    if (thread % kWarp < kAcross) of_warps[thread / kWarp][across * kCodes + j] = most;
  }
  __syncthreads();
  if (thread < kTileBytes) {
    uint32_t most = 0;
#pragma unroll
    for (int warp = 0; warp < kBlock / kWarp; ++warp) most = max(most, of_warps[warp][thread]);
    const float amax = __uint_as_float(most);
    of_columns[thread] = factor_of(amax, kLargestFp8<Q>);
    const int64_t own = column - across * kCodes + thread;
    if (own < to.columns) to.column_amax[own * to.column_tiles + blockIdx.y] = amax;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kCodes; ++j) factors[j] = of_columns[across * kCodes + j];
}

template <class Q, class T, bool kTiles>
__global__ void __launch_bounds__(kBlock)
    quantize_turned_kernel(const Codes<Q> codes, const T* from, const Turned to) {
  __shared__ ByteTile tile;
  const int thread = static_cast<int>(threadIdx.x), across = thread % kAcross;
  const int down = thread / kAcross;
  const int64_t first_row = int64_t{blockIdx.y} * kTileBytes;
  const int64_t first_column = int64_t{blockIdx.x} * kTileBytes;
  const int64_t row = first_row + down, column = first_column + across * kCodes;
  float x[kRowsOfThread][kCodes], factors[kCodes];
  load_tile(x, from, to, row, column);
  float factor = 1;
  if constexpr (kTiles) {
    find_columns<Q>(factors, x, to, column);
  } else {
    const float amax = to.used != nullptr ? *to.used : *to.amax;
    factor = factor_of(amax, kLargestFp8<Q>);
    if (to.used != nullptr && first_row == 0 && first_column == 0 && thread == 0) *to.amax = amax;
  }
  uint32_t found = 0;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    uint32_t most = largest_of(x[i]);
    found = max(found, most);
    const int64_t at = row + i * kDown;
    const bool is_inside = at < to.rows && column < to.columns;
    Pack<Q, kCodes> of_row, of_columns;
    float values[kCodes];
    if constexpr (kTiles) {
#pragma unroll
      for (int offset = kAcross / 2; offset > 0; offset /= 2)
        most = max(most, __shfl_xor_sync(0xffffffff, most, offset));
      const float amax = __uint_as_float(most);
      factor = factor_of(amax, kLargestFp8<Q>);
      if (codes.q != nullptr && across == 0 && is_inside)
        to.row_amax[at * to.row_tiles + blockIdx.x] = amax;
    }
#pragma unroll
    for (int j = 0; j < kCodes; ++j) values[j] = before_rounding(x[i][j], factor);
    round_to_fp8(of_row, values);
    if (codes.q != nullptr && is_inside)
      *reinterpret_cast<Pack<Q, kCodes>*>(codes.q + at * to.columns + column) = of_row;
    if constexpr (kTiles) {
#pragma unroll
      for (int j = 0; j < kCodes; ++j) values[j] = before_rounding(x[i][j], factors[j]);
      round_to_fp8(of_columns, values);
    } else {
      of_columns = of_row;
    }
    tile.put_half(down + i * kDown, across, *reinterpret_cast<const uint2*>(&of_columns));
  }
  if (!kTiles && to.found != nullptr) {
    found = __reduce_max_sync(0xffffffff, found);
    if (thread % kWarp == 0 && found > *to.found) atomicMax(to.found, found);
  }
  __syncthreads();
  const int group = thread % kTileChunks, word = thread / kTileChunks;
  if (first_row + 16 * group >= to.rows || first_column + 4 * word >= to.columns) return;
  uint4 out[4];
  tile.take(out, word, group);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<uint4*>(codes.turned + (first_column + 4 * word + i) * to.rows + first_row +
                              16 * group) = out[i];
}

template <bool kTiles>
void run(Stream& stream, Tensor& q, Tensor& turned, const Tensor& x, const Turned& to) {
  SXT_CHECK(are_aligned({q.raw(), turned.raw(), x.raw()}), Usage,
            "quantize_turned: a tensor does not begin at a multiple of 16 bytes");
  SXT_CHECK(ceil_div(to.rows, kTileBytes) <= kMostBlocksY, Usage, "quantize_turned: ", to.rows,
            " rows are more than a GPU takes at once");
  with_compute("quantize_turned", x.dtype(), [&]<class T>(T) {
    with_fp8(turned.dtype(), [&]<class Q>(Q) {
      const Codes<Q> codes{q ? q.data<Q>() : nullptr, turned.data<Q>()};
      launch(stream, "quantize_turned", quantize_turned_kernel<Q, T, kTiles>,
             dim3(static_cast<unsigned>(ceil_div(to.columns, kTileBytes)),
                  static_cast<unsigned>(ceil_div(to.rows, kTileBytes))),
             kBlock, codes, x.data<T>(), to);
    });
  });
}

}  // namespace

void quantize_turned(Stream& stream, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const DelayedAmax& delayed) {
  Tensor found = delayed.found;
  run<false>(stream, q, turned, x,
             {.rows = x.dim(0),
              .columns = x.dim(1),
              .amax = amax.data<float>(),
              .used = data_or_null<float>(delayed.used),
              .found = found ? reinterpret_cast<uint32_t*>(found.data<float>()) : nullptr,
              .row_amax = nullptr,
              .column_amax = nullptr,
              .row_tiles = 0,
              .column_tiles = 0});
}

void quantize_turned_tiles(Stream& stream, Tensor& q, Tensor& amax, Tensor& turned,
                           Tensor& turned_amax, const Tensor& x) {
  run<true>(stream, q, turned, x,
            {.rows = x.dim(0),
             .columns = x.dim(1),
             .amax = nullptr,
             .used = nullptr,
             .found = nullptr,
             .row_amax = amax ? amax.data<float>() : nullptr,
             .column_amax = turned_amax.data<float>(),
             .row_tiles = amax ? amax.dim(1) : 0,
             .column_tiles = turned_amax.dim(1)});
}

}  // namespace sextant::cuda
