#pragma once
// What norms over short rows share, and sums over rows for their weights. Some threads hold one row
// in registers: it is read once, reduced and written. Rows too long for that are read again for
// each use. See row_queue.h for the norms of whole tokens.
#include "ops/cuda/column_sums.h"

namespace sextant::cuda {

// How rows lie on threads: `width` threads (blockDim.x) of a row, `height` rows (blockDim.y) of a
// block, `held` packs of a thread; 0: the row is read again. Up to a warp `width` is a power of
// two, beyond it is whole warps and `height` 1.
struct RowShape {
  int width = 0, height = 0, held = 0;

  dim3 block() const { return dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)); }

  // A thread holds up to `most_in_warp` packs where a warp has a row, `most_in_block` or, of longer
  // rows, most_in_warp where a block has it.
  static RowShape of(int64_t packs, int most_in_warp, int most_in_block) {
    RowShape shape;
    if (packs <= int64_t{kWarp} * most_in_warp) {
      shape.width = 8;
      while (shape.width < kWarp && shape.width < packs) shape.width *= 2;
      shape.held = static_cast<int>(std::max<int64_t>(1, ceil_div(packs, shape.width)));
      if (shape.held > 4) shape.held = most_in_warp;
      shape.height = (shape.held < 8 ? kBlock : kBlock / 2) / shape.width;
      return shape;
    }
    shape.height = 1;
    for (const int held : {most_in_block, most_in_warp, 0}) {
      shape.held = held;
      const int64_t threads = ceil_div(ceil_div(packs, std::max(1, held)), kWarp) * kWarp;
      shape.width = static_cast<int>(std::min<int64_t>(threads, most_threads(held)));
      if (threads <= most_threads(held)) break;
    }
    return shape;
  }

  // Threads of a block, so few that registers suffice for what they hold.
  static constexpr int most_threads(int held) { return held <= 2 ? 2 * kBlock : kBlock; }
};

// The packs of one row that a thread has.
template <class T, int N, int kHeld>
class RowPart {
 public:
  __device__ RowPart(const T* row, int packs, bool is_there)
      : row_(row), packs_(is_there ? packs : 0) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (pack(i) < packs_) held_[i] = *reinterpret_cast<const Pack<T, N>*>(row_ + pack(i) * N);
  }

  // f(column of the first, N values, number of the pack within the thread).
  template <class F>
  __device__ void each(F&& f) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (pack(i) >= packs_) continue;
        float values[N];
        get(values, 0, i);
        f(pack(i) * N, values, i);
      }
    } else {
      for (int at = static_cast<int>(threadIdx.x); at < packs_;
           at += static_cast<int>(blockDim.x)) {
        float values[N];
        get(values, at * N, 0);
        f(at * N, values, 0);
      }
    }
  }

  // The values of one pack, by the arguments that each() of a part alike gives.
  __device__ void get(float (&values)[N], int column, int i) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int e = 0; e < N; ++e) values[e] = widened(held_[i].values[e]);
    } else {
      load(values, row_ + column);
    }
  }

 private:
  __device__ int pack(int i) const {
    return i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  }

  const T* row_;
  int packs_;
  Pack<T, N> held_[kHeld > 0 ? kHeld : 1];
};

// Sum over the threads of a row; all get the same bits. All threads of a block call it.
__device__ inline float row_sum(float x) {
  if (blockDim.x <= kWarp) return warp_sum(x, static_cast<int>(blockDim.x));
  return block_sum(x);
}

// f(row, whether it exists) for the rows of a block; all its threads go through all rounds.
template <class F>
__device__ inline void for_rows(int64_t rows, F&& f) {
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < rows;
       first += int64_t{gridDim.x} * blockDim.y)
    f(first + threadIdx.y, first + threadIdx.y < rows);
}

// f(integral_constant N, integral_constant kHeld, shape) for the kernel that suits rows of
// `columns`. Kernels exist for 1, 2, 3, 4 and kMostInWarp packs held, for single elements with
// kMostInWarp held, and for both with none.
template <class T, int kMostInWarp, int kMostInBlock, class F>
void with_row_shape(bool is_packed, int64_t columns, F&& f) {
  using std::integral_constant;
  if (is_packed) {
    const integral_constant<int, kPack<T>> n;
    const RowShape shape = RowShape::of(columns / kPack<T>, kMostInWarp, kMostInBlock);
    if (shape.held == 0) return f(n, integral_constant<int, 0>{}, shape);
    if (shape.held == 1) return f(n, integral_constant<int, 1>{}, shape);
    if (shape.held == 2) return f(n, integral_constant<int, 2>{}, shape);
    if (shape.held == 3) return f(n, integral_constant<int, 3>{}, shape);
    if (shape.held == 4) return f(n, integral_constant<int, 4>{}, shape);
    return f(n, integral_constant<int, kMostInWarp>{}, shape);
  }
  const integral_constant<int, 1> n;
  const RowShape shape = RowShape::of(columns, kMostInWarp, kMostInWarp);
  if (shape.held == 0) return f(n, integral_constant<int, 0>{}, shape);
  f(n, integral_constant<int, kMostInWarp>{}, shape);
}

// A thread's sums over rows, for the columns of its packs.
template <int N, int kHeld>
class ColumnSums {
 public:
  // own: this block's sums in scratch, [columns], used at once where nothing is held.
  __device__ ColumnSums(float* own, int columns) : own_(own), columns_(columns) {
    if constexpr (kHeld == 0)
      for (int at = static_cast<int>(threadIdx.x); at < columns_ / N;
           at += static_cast<int>(blockDim.x))
#pragma unroll
        for (int i = 0; i < N; ++i) own_[at * N + i] = 0;
  }

  // With the arguments of RowPart::each.
  __device__ void add(int column, const float (&values)[N], int pack) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (kHeld > 0)
        sums_[pack][i] += values[i];
      else
        own_[column + i] += values[i];
    }
  }

  // Adds up the rows of the block in their order, and writes them to `own`. All threads call it.
  static constexpr int kShared = kHeld > 0 ? kBlock* kHeld* N : 1;  // floats: [rows, columns]
  __device__ void finish(float* shared) {
    if constexpr (kHeld > 0) {
      float* to = blockDim.y > 1 ? shared + threadIdx.y * columns_ : own_;
      __syncthreads();  // the shared memory may still be read
#pragma unroll
      for (int p = 0; p < kHeld; ++p) {
        const int column = (p * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * N;
        if (column >= columns_) continue;
#pragma unroll
        for (int i = 0; i < N; ++i) to[column + i] = sums_[p][i];
      }
      if (blockDim.y == 1) return;
      __syncthreads();
      const int threads = static_cast<int>(blockDim.x * blockDim.y);
      for (int column = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); column < columns_;
           column += threads) {
        float sum = 0;
        for (int row = 0; row < static_cast<int>(blockDim.y); ++row)
          sum += shared[row * columns_ + column];
        own_[column] = sum;
      }
    }
  }

 private:
  float* own_;
  int columns_;
  float sums_[kHeld > 0 ? kHeld : 1][N] = {};
};

}  // namespace sextant::cuda
