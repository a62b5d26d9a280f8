// A maximum has no order, so blocks of threads meet in atomic maxima of the integers that absolute
// values are in memory; and so the amax and the codes are those of the CPU, bit by bit.
#include "ops/quantize.h"

#include "ops/cuda/activated.cuh"
#include "ops/cuda/fp8.cuh"
#include "ops/quantize_turned.h"

namespace sextant::cuda {

decltype(sextant::block_amax) block_amax;
decltype(sextant::quantize) quantize;
decltype(sextant::quantize_blocks) quantize_blocks;
decltype(sextant::activated_amax) activated_amax;

namespace {

// A matrix, or elements of it in row-major order.
struct Piece {
  int64_t rows, columns, begin, end;  // elements begin ... end - 1

  Piece(const Tensor& x, const MatrixPiece& piece)
      : rows(piece.whole[0]),
        columns(piece.whole[1]),
        begin(piece.first),
        end(piece.first + x.elements()) {}
};

constexpr int kWarps = kBlock / kWarp;

// The largest of all threads of a block, in thread 0.
__device__ uint32_t block_largest(uint32_t most) {
  __shared__ uint32_t of_warps[kWarps];
  most = __reduce_max_sync(0xffffffff, most);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = most;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int warp = 1; warp < kWarps; ++warp) most = max(most, of_warps[warp]);
  return most;
}

// One scale for all: packs in a row, whatever the matrix, from its end on: what was written last is
// still in the cache. The kernel that quantises begins where this one ends.
template <class T, int N, class Form>
__global__ void __launch_bounds__(kBlock)
    amax_of_all(uint32_t* amax, const T* x, int64_t packs, const Form form) {
  constexpr int kAtOnce = 4;
  Maxima<T, N> most;
  const int64_t step = int64_t{gridDim.x} * kBlock;
  int64_t pack = packs - 1 - (int64_t{blockIdx.x} * kBlock + threadIdx.x);
  for (; pack >= (kAtOnce - 1) * step; pack -= kAtOnce * step) {
    Pack<T, N> values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      values[i] = *reinterpret_cast<const Pack<T, N>*>(x + (pack - i * step) * N);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      form(values[i], (pack - i * step) * N);
      most.raise(values[i]);
    }
  }
  for (; pack >= 0; pack -= step) {
    Pack<T, N> values = *reinterpret_cast<const Pack<T, N>*>(x + pack * N);
    form(values, pack * N);
    most.raise(values);
  }
  const uint32_t found = block_largest(most.largest());
  if (threadIdx.x == 0 && found > 0) atomicMax(amax, found);
}

template <class T, int N, class Form>
void find_amax_of_all(Stream& stream, uint32_t* amax, const Tensor& x, const Form& form) {
  constexpr int64_t kMostBlocks = 132 * 8;
  const int64_t packs = x.elements() / N;
  launch(stream, "block_amax", amax_of_all<T, N, Form>,
         static_cast<unsigned>(std::min(ceil_div(packs, kBlock), kMostBlocks)), kBlock, amax,
         x.data<T>(), packs, form);
}

// Blocks of 128 x 128 of a whole matrix: each is one block of threads, 16 a row, which reads it
// once.
constexpr int kSide = static_cast<int>(kScaleBlock), kInRow = 8;
template <class Q, class T>
__global__ void __launch_bounds__(kBlock, sizeof(T) == 4 ? 2 : 4)
    quantize_squares(Q* q, uint32_t* amax, const T* x, int64_t rows, int64_t columns) {
  constexpr int kAcross = kSide / kInRow, kDown = kBlock / kAcross, kRows = kSide / kDown;
  __shared__ float factor;
  const int64_t row = int64_t{blockIdx.y} * kSide + threadIdx.x / kAcross;
  const int64_t column = int64_t{blockIdx.x} * kSide + threadIdx.x % kAcross * kInRow;
  Pack<T, kInRow> values[kRows];
  Maxima<T, kInRow> most;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    values[i] = {};
    if (column < columns && row + i * kDown < rows)
      values[i] =
          *reinterpret_cast<const Pack<T, kInRow>*>(x + (row + i * kDown) * columns + column);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) most.raise(values[i]);
  const uint32_t found = block_largest(most.largest());
  if (threadIdx.x == 0) {
    amax[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = found;
    factor = factor_of(__uint_as_float(found), kLargestFp8<Q>);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (column >= columns || row + i * kDown >= rows) continue;
    float scaled[kInRow];
#pragma unroll
    for (int j = 0; j < kInRow; ++j)
      scaled[j] = before_rounding(widened(values[i].values[j]), factor);
    Pack<Q, kInRow> out;
    round_to_fp8(out, scaled);
    *reinterpret_cast<Pack<Q, kInRow>*>(q + (row + i * kDown) * columns + column) = out;
  }
}

// Tiles: a block of threads has kColumns columns of some rows in one row of tiles.
constexpr int kColumns = 256, kRowsAtOnce = 32;
template <class T>
__global__ void __launch_bounds__(kColumns)
    amax_of_tiles(uint32_t* amax, const T* x, Piece piece, Tiles tiles, int64_t width) {
  const int64_t column = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const int64_t first = int64_t{blockIdx.y} * kRowsAtOnce;
  const int64_t last = min(first + kRowsAtOnce, piece.rows);
  uint32_t most = 0;
  // The lanes of a warp have columns of one tile, or each has its own.
  const auto put = [&](int64_t row) {
    if (tiles.columns == 1) {
      if (column < piece.columns && most > 0)
        atomicMax(amax + tiles.row_of(row) * width + column, most);
    } else {
      most = __reduce_max_sync(0xffffffff, most);
      if (threadIdx.x % kWarp == 0 && most > 0)
        atomicMax(amax + tiles.row_of(row) * width + tiles.column_of(column), most);
    }
    most = 0;
  };
  for (int64_t row = first; row < last; ++row) {
    if (row > first && tiles.row_of(row) != tiles.row_of(row - 1)) put(row - 1);
    const int64_t at = row * piece.columns + column;
    if (column < piece.columns && at >= piece.begin && at < piece.end)
      most = max(most, magnitude(widened(x[at - piece.begin])));
  }
  put(last - 1);
}

// One factor for all.
template <class Q, class T, int N>
__global__ void __launch_bounds__(kBlock)
    quantize_all(Q* q, const T* x, const float* amax, int64_t packs) {
  const float factor = factor_of(*amax, kLargestFp8<Q>);
  const int64_t pack = int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (pack >= packs) return;
  float values[N];
  load(values, x + pack * N);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = before_rounding(values[i], factor);
  Pack<Q, N> out;
  round_to_fp8(out, values);
  *reinterpret_cast<Pack<Q, N>*>(q + pack * N) = out;
}

// A pack lies in one row, and in one column of tiles unless these have one column.
template <class Q, class T, int N>
__global__ void __launch_bounds__(kBlock)
    quantize_tiles(Q* q, const T* x, const float* amax, Piece piece, Tiles tiles, int64_t width) {
  const int64_t at = (int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
  if (piece.begin + at >= piece.end) return;
  const int64_t row = (piece.begin + at) / piece.columns;
  const int64_t column = piece.begin + at - row * piece.columns;
  const float* of_row = amax + tiles.row_of(row) * width;
  float values[N];
  load(values, x + at);
  float factor = factor_of(of_row[tiles.column_of(column)], kLargestFp8<Q>);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i > 0 && tiles.columns == 1) factor = factor_of(of_row[column + i], kLargestFp8<Q>);
    values[i] = before_rounding(values[i], factor);
  }
  Pack<Q, N> out;
  round_to_fp8(out, values);
  *reinterpret_cast<Pack<Q, N>*>(q + at) = out;
}

// Tiles of a width in which every pack lies in one of them.
bool has_packed_tiles(const ScaleBlock& block, const MatrixPiece& piece, int64_t pack) {
  return piece.whole[1] % pack == 0 && piece.first % pack == 0 &&
         (block.columns <= 1 || block.columns % pack == 0);
}

}  // namespace

void block_amax(Stream& stream, Tensor& amax, const Tensor& x, const ScaleBlock& block,
                const MatrixPiece& piece) {
  auto* out = reinterpret_cast<uint32_t*>(amax.data<float>());
  check(cudaMemsetAsync(out, 0, static_cast<size_t>(amax.bytes()), queue_of(stream)), "block_amax");
  if (x.elements() == 0) return;
  with_compute("block_amax", x.dtype(), [&]<class T>(T) {
    if (block == ScaleBlock{}) {
      with_pack<T>(can_pack<T>(x.elements(), {x.raw()}),
                   [&]<int N>(std::integral_constant<int, N>) {
                     find_amax_of_all<T, N>(stream, out, x, AsItIs<T>{});
                   });
      return;
    }
    SXT_CHECK(block.columns == 1 || block.columns % kWarp == 0, Usage, "block_amax: tiles of ",
              block.columns, " columns, on a GPU 1 or a multiple of ", kWarp);
    const Piece part(x, piece);
    SXT_CHECK(ceil_div(part.rows, kRowsAtOnce) <= kMostBlocksY, Usage, "block_amax: ", part.rows,
              " rows are more than a GPU takes at once");
    launch(stream, "block_amax", amax_of_tiles<T>,
           dim3(static_cast<unsigned>(ceil_div(part.columns, kColumns)),
                static_cast<unsigned>(ceil_div(part.rows, kRowsAtOnce))),
           kColumns, out, x.data<T>(), part, Tiles(block), amax.dim(1));
  });
}

void activated_amax(Stream& stream, Tensor& amax, const Tensor& x, const Activated& activated) {
  auto* out = reinterpret_cast<uint32_t*>(amax.data<float>());
  check(cudaMemsetAsync(out, 0, sizeof(float), queue_of(stream)), "activated_amax");
  if (x.elements() == 0) return;
  SXT_CHECK(are_aligned({x.raw(), activated.backward_of.raw()}), Usage,
            "activated_amax: a tensor does not begin at a multiple of 16 bytes");
  with_activated("activated_amax", x.dtype(), activated, [&]<class T>(T, auto form) {
    find_amax_of_all<T, kPack<T>>(stream, out, x, form);
  });
}

void quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
              const ScaleBlock& block, const MatrixPiece& piece) {
  if (x.elements() == 0) return;
  constexpr int kCodes = 8;  // of a thread: 16 bytes of a 2-byte type
  with_compute("quantize", x.dtype(), [&]<class T>(T) {
    with_fp8(q.dtype(), [&]<class Q>(Q) {
      const auto run = [&]<int N>(std::integral_constant<int, N>) {
        const dim3 grid = grid_of(ceil_div(x.elements(), N));
        if (block == ScaleBlock{})
          launch(stream, "quantize", quantize_all<Q, T, N>, grid, kBlock, q.data<Q>(), x.data<T>(),
                 amax.data<float>(), x.elements() / N);
        else
          launch(stream, "quantize", quantize_tiles<Q, T, N>, grid, kBlock, q.data<Q>(),
                 x.data<T>(), amax.data<float>(), Piece(x, piece), Tiles(block), amax.dim(1));
      };
      const bool is_packed = x.elements() % kCodes == 0 && are_aligned({x.raw(), q.raw()}) &&
                             (block == ScaleBlock{} || has_packed_tiles(block, piece, kCodes));
      if (is_packed) return run(std::integral_constant<int, kCodes>{});
      run(std::integral_constant<int, 1>{});
    });
  });
}

void quantize_blocks(Stream& stream, Tensor& q, Tensor& amax, const Tensor& x) {
  if (x.dim(1) % kInRow != 0 || amax.dim(0) > kMostBlocksY || !are_aligned({q.raw(), x.raw()})) {
    const MatrixPiece whole{x.shape(), 0};
    cuda::block_amax(stream, amax, x, kWeightBlock, whole);
    return cuda::quantize(stream, q, x, amax, kWeightBlock, whole);
  }
  with_compute("quantize_blocks", x.dtype(), [&]<class T>(T) {
    with_fp8(q.dtype(), [&]<class Q>(Q) {
      launch(stream, "quantize_blocks", quantize_squares<Q, T>,
             dim3(static_cast<unsigned>(amax.dim(1)), static_cast<unsigned>(amax.dim(0))), kBlock,
             q.data<Q>(), reinterpret_cast<uint32_t*>(amax.data<float>()), x.data<T>(), x.dim(0),
             x.dim(1));
    });
  });
}

}  // namespace sextant::cuda
