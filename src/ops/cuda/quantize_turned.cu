// A block of threads has a tile of 128 x 128 of x in registers, as it lies in memory: 16 threads a
// row, 8 elements each, 8 rows a thread, all read before the first is used. It writes the codes of
// rows as they are, and puts those of columns into shared memory, from where they are taken
// transposed. Elements widen one row at a time, so registers leave room for several blocks on a
// multiprocessor: while one waits for memory, another computes.
#include "ops/quantize_turned.h"

#include "ops/cuda/activated.cuh"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/fp8.cuh"
#include "ops/cuda/maxima.cuh"
#include "ops/cuda/transpose_bytes.cuh"

namespace sextant::cuda {

decltype(sextant::quantize_turned) quantize_turned;
decltype(sextant::quantize_turned_tiles) quantize_turned_tiles;
decltype(sextant::sum_turned_tiles) sum_turned_tiles;

namespace {

constexpr int kCodes = 8;                     // elements of a thread in a row
constexpr int kAcross = kTileBytes / kCodes;  // threads of a row
constexpr int kDown = kBlock / kAcross;       // rows at once
constexpr int kRowsOfThread = kTileBytes / kDown;
static_assert(kAcross == 16 && kRowsOfThread == 8);

template <class T>
using Row = Pack<T, kCodes>;

struct Turned {
  int64_t rows, columns;
  float* amax;         // of all; null: each tile its own
  const float* used;   // or null
  uint32_t* found;     // or null
  float* row_amax;     // [rows, row_tiles]
  float* column_amax;  // [columns, column_tiles]
  int64_t row_tiles, column_tiles;
  float* sums;  // [tiles, columns], or null
};

template <class Q>
struct Codes {
  Q* q;       // or null
  Q* turned;  // or null
};

// The elements of a thread: rows `row`, `row` + kDown, ... of its tile, from `column` on.
struct Place {
  int64_t row, column;
  int across, down;

  __device__ Place()
      : across(static_cast<int>(threadIdx.x) % kAcross),
        down(static_cast<int>(threadIdx.x) / kAcross) {
    row = int64_t{blockIdx.y} * kTileBytes + down;
    column = int64_t{blockIdx.x} * kTileBytes + across * kCodes;
  }
  __device__ bool has(const Turned& to, int i) const {
    return row + i * kDown < to.rows && column < to.columns;
  }
  __device__ int64_t element(const Turned& to, int i) const {
    return (row + i * kDown) * to.columns + column;
  }
};

template <class T, class Form>
__device__ void load_tile(Row<T> (&x)[kRowsOfThread], const T* from, const Turned& to,
                          const Place& place, const Form& form) {
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    x[i] = Row<T>{};
    if (place.has(to, i)) x[i] = *reinterpret_cast<const Row<T>*>(from + place.element(to, i));
  }
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i)
    if (place.has(to, i)) form(x[i], place.element(to, i));
}

// factor(j): of element j of the row.
template <class Q, class T, class Factor>
__device__ Pack<Q, kCodes> codes_of(const Row<T>& x, Factor&& factor) {
  float values[kCodes];
#pragma unroll
  for (int j = 0; j < kCodes; ++j) values[j] = before_rounding(widened(x.values[j]), factor(j));
  Pack<Q, kCodes> out;
  round_to_fp8(out, values);
  return out;
}

// Writes the transposed codes of the tile, when all threads have put theirs.
template <class Q>
__device__ void write_turned(const ByteTile& tile, Q* turned, const Turned& to) {
  const int64_t first_row = int64_t{blockIdx.y} * kTileBytes;
  const int64_t first_column = int64_t{blockIdx.x} * kTileBytes;
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread % kTileChunks, word = thread / kTileChunks;
  if (first_row + 16 * group >= to.rows || first_column + 4 * word >= to.columns) return;
  uint4 out[4];
  tile.take(out, word, group);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<uint4*>(turned + (first_column + 4 * word + i) * to.rows + first_row +
                              16 * group) = out[i];
}

// Sums over the rows of the tile, column by column: of a thread's rows, of the two rows of a warp,
// of the warps in their order.
struct ColumnSums {
  float of[kCodes] = {};

  template <class Q, class Scale>
  __device__ void add(const Pack<Q, kCodes>& codes, Scale&& scale) {
    float values[kCodes];
    widen_fp8<Q, kCodes>(values, codes);
#pragma unroll
    for (int j = 0; j < kCodes; ++j) of[j] += __fmul_rn(values[j], scale(j));
  }
  __device__ void write(const Turned& to, const Place& place) {
    __shared__ float of_warps[kBlock / kWarp][kTileBytes];
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int j = 0; j < kCodes; ++j) {
      of[j] += __shfl_xor_sync(0xffffffff, of[j], kAcross);
      if (thread % kWarp < kAcross) of_warps[thread / kWarp][place.across * kCodes + j] = of[j];
    }
    __syncthreads();
    const int64_t column = place.column - place.across * kCodes + thread;
    if (thread >= kTileBytes || column >= to.columns) return;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kBlock / kWarp; ++warp) sum += of_warps[warp][thread];
    to.sums[blockIdx.y * to.columns + column] = sum;
  }
};

enum class Sums { Made, Skipped };

// Blocks of threads that a multiprocessor should have room for.
template <class T, class Form, Sums kSums>
constexpr int blocks_at_once() {
  if (sizeof(T) == 4) return 2;
  if (std::is_same_v<Form, AsItIs<T>> || std::is_same_v<Form, Gelu<T, false>>)
    return kSums == Sums::Made ? 3 : 4;
  return std::is_same_v<Form, GeluBackward<T, false>> ? 3 : 2;
}

template <class Q, class T, class Form, Sums kSums>
__global__ void __launch_bounds__(kBlock, blocks_at_once<T, Form, kSums>())
    quantize_turned_kernel(const Codes<Q> codes, const T* from, const Turned to, const Form form) {
  __shared__ ByteTile tile;
  const Place place;
  Row<T> x[kRowsOfThread];
  load_tile(x, from, to, place, form);
  const float amax = to.used != nullptr ? *to.used : *to.amax;
  const float factor = factor_of(amax, kLargestFp8<Q>);
  if (to.used != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *to.amax = amax;
  if (to.found != nullptr) {
    Maxima<T, kCodes> most;
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) most.raise(x[i]);
    const uint32_t found = __reduce_max_sync(0xffffffff, most.largest());
    if (threadIdx.x % kWarp == 0 && found > *to.found) atomicMax(to.found, found);
  }
  ColumnSums sums;
  const float scale = scale_of(amax, kLargestFp8<Q>);
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const Pack<Q, kCodes> out = codes_of<Q, T>(x[i], [factor](int) { return factor; });
    if constexpr (kSums == Sums::Made) sums.add(out, [scale](int) { return scale; });
    if (codes.q != nullptr && place.has(to, i))
      *reinterpret_cast<Pack<Q, kCodes>*>(codes.q + place.element(to, i)) = out;
    if (codes.turned != nullptr)
      tile.put_half(place.down + i * kDown, place.across, *reinterpret_cast<const uint2*>(&out));
  }
  if (codes.turned == nullptr) return;
  __syncthreads();
  write_turned(tile, codes.turned, to);
  if constexpr (kSums == Sums::Made) sums.write(to, place);
}

// Sets the largest values of the columns in all rows of the tile.
template <class T>
__device__ void find_columns(float (&amax)[kCodes], const Row<T> (&x)[kRowsOfThread],
                             const Turned& to, const Place& place) {
  __shared__ uint32_t of_warps[kBlock / kWarp][kTileBytes];
  __shared__ float of_columns[kTileBytes];
  const int thread = static_cast<int>(threadIdx.x);
  Maxima<T, kCodes> most;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) most.raise(x[i]);
  most.join_lanes(kAcross);
  if (thread % kWarp < kAcross)
#pragma unroll
    for (int j = 0; j < kCodes; ++j)
      of_warps[thread / kWarp][place.across * kCodes + j] = most.at(j);
  __syncthreads();
  if (thread < kTileBytes) {
    uint32_t column = 0;
#pragma unroll
    for (int warp = 0; warp < kBlock / kWarp; ++warp) column = max(column, of_warps[warp][thread]);
    of_columns[thread] = __uint_as_float(column);
    const int64_t own = place.column - place.across * kCodes + thread;
    if (own < to.columns) to.column_amax[own * to.column_tiles + blockIdx.y] = of_columns[thread];
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kCodes; ++j) amax[j] = of_columns[place.across * kCodes + j];
}

template <class Q, class T, class Form>
__global__ void __launch_bounds__(kBlock, sizeof(T) == 4 ? 2 : 3)
    quantize_tiles_kernel(const Codes<Q> codes, const T* from, const Turned to, const Form form) {
  __shared__ ByteTile tile;
  const Place place;
  Row<T> x[kRowsOfThread];
  load_tile(x, from, to, place, form);
  if (codes.q != nullptr) {
    uint32_t of_rows[kRowsOfThread];
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      Maxima<T, kCodes> most;
      most.raise(x[i]);
      of_rows[i] = most.largest();
    }
    join_rows<T, kAcross>(of_rows);
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      if (!place.has(to, i)) continue;
      const float amax = __uint_as_float(of_rows[i]);
      const float factor = factor_of(amax, kLargestFp8<Q>);
      *reinterpret_cast<Pack<Q, kCodes>*>(codes.q + place.element(to, i)) =
          codes_of<Q, T>(x[i], [factor](int) { return factor; });
      if (place.across == 0)
        to.row_amax[(place.row + i * kDown) * to.row_tiles + blockIdx.x] = amax;
    }
  }
  if (codes.turned == nullptr) return;
  float amax[kCodes];
  find_columns<T>(amax, x, to, place);
  float factors[kCodes], scales[kCodes];
#pragma unroll
  for (int j = 0; j < kCodes; ++j) {
    factors[j] = factor_of(amax[j], kLargestFp8<Q>);
    scales[j] = to.sums != nullptr ? scale_of(amax[j], kLargestFp8<Q>) : 0;
  }
  ColumnSums sums;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const Pack<Q, kCodes> out = codes_of<Q, T>(x[i], [&](int j) { return factors[j]; });
    if (to.sums != nullptr) sums.add(out, [&](int j) { return scales[j]; });
    tile.put_half(place.down + i * kDown, place.across, *reinterpret_cast<const uint2*>(&out));
  }
  __syncthreads();
  write_turned(tile, codes.turned, to);
  if (to.sums != nullptr) sums.write(to, place);
}

enum class Scales { One, Tiles };

template <Scales kScales>
void run(Stream& stream, Tensor& q, Tensor& turned, const Tensor& x, const Activated& activated,
         const Turned& to) {
  SXT_CHECK(are_aligned({q.raw(), turned.raw(), x.raw(), activated.backward_of.raw()}), Usage,
            "quantize_turned: a tensor does not begin at a multiple of 16 bytes");
  SXT_CHECK(ceil_div(to.rows, kTileBytes) <= kMostBlocksY, Usage, "quantize_turned: ", to.rows,
            " rows are more than a GPU takes at once");
  const dim3 grid(static_cast<unsigned>(ceil_div(to.columns, kTileBytes)),
                  static_cast<unsigned>(ceil_div(to.rows, kTileBytes)));
  with_activated("quantize_turned", x.dtype(), activated, [&]<class T>(T, auto form) {
    with_fp8(turned ? turned.dtype() : q.dtype(), [&]<class Q>(Q) {
      const Codes<Q> codes{q ? q.data<Q>() : nullptr, turned ? turned.data<Q>() : nullptr};
      using Form = decltype(form);
      const auto put = [&](const char* op, auto* kernel) {
        launch(stream, op, kernel, grid, kBlock, codes, x.data<T>(), to, form);
      };
      if constexpr (kScales == Scales::Tiles) {
        put("quantize_turned_tiles", quantize_tiles_kernel<Q, T, Form>);
      } else {
        if (to.sums == nullptr)
          return put("quantize_turned", quantize_turned_kernel<Q, T, Form, Sums::Skipped>);
        if constexpr (std::is_same_v<T, bf16>)
          return put("quantize_turned", quantize_turned_kernel<Q, T, Form, Sums::Made>);
        SXT_FAIL(Usage, "quantize_turned: sums of ", name_of(x.dtype()),
                 " are made on the CPU only, on a GPU they must be of bf16");
      }
    });
  });
}

}  // namespace

void quantize_turned(Stream& stream, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const Turning& turning) {
  Tensor found = turning.delayed.found, sums = turning.sums;
  run<Scales::One>(stream, q, turned, x, turning.activated,
                   {.rows = x.dim(0),
                    .columns = x.dim(1),
                    .amax = amax.data<float>(),
                    .used = data_or_null<float>(turning.delayed.used),
                    .found = found ? reinterpret_cast<uint32_t*>(found.data<float>()) : nullptr,
                    .row_amax = nullptr,
                    .column_amax = nullptr,
                    .row_tiles = 0,
                    .column_tiles = 0,
                    .sums = sums ? sums.data<float>() : nullptr});
}

void quantize_turned_tiles(Stream& stream, Tensor& q, Tensor& amax, Tensor& turned,
                           Tensor& turned_amax, const Tensor& x, const Turning& turning) {
  Tensor sums = turning.sums;
  run<Scales::Tiles>(stream, q, turned, x, turning.activated,
                     {.rows = x.dim(0),
                      .columns = x.dim(1),
                      .amax = nullptr,
                      .used = nullptr,
                      .found = nullptr,
                      .row_amax = amax ? amax.data<float>() : nullptr,
                      .column_amax = turned_amax ? turned_amax.data<float>() : nullptr,
                      .row_tiles = amax ? amax.dim(1) : 0,
                      .column_tiles = turned_amax ? turned_amax.dim(1) : 0,
                      .sums = sums ? sums.data<float>() : nullptr});
}

void sum_turned_tiles(Stream& stream, Tensor& out, const Tensor& sums, Write write) {
  with_compute("sum_turned_tiles", out.dtype(), [&]<class G>(G) {
    fold<G>(stream, "sum_turned_tiles", out.data<G>(), nullptr, sums.data<float>(), sums.dim(0),
            sums.dim(1), write);
  });
}

}  // namespace sextant::cuda
