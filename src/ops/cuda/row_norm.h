#pragma once
// What norms over rows share. Some threads hold one row: it is read once, reduced and written. Rows
// too long for that are read again for each use. It lies in shared memory, where the rows to come
// arrive by asynchronous copies meanwhile, or in registers.
#include "ops/cuda/column_sums.h"
#include "ops/cuda/warp.cuh"

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

  // Threads of a block, so few that registers suffice for what they hold; blocks of a
  // multiprocessor that a backward pass needs for enough rows under way.
  static constexpr int most_threads(int held) { return held <= 2 ? 2 * kBlock : kBlock; }
  static constexpr int least_blocks(int held) { return held == 3 ? 2 : 1; }
  static constexpr int64_t most_partials(int held) {
    return held == 3 ? kMostPartials / 2 : kMostPartials;
  }

  // Blocks that go through all rows, so many as fit 132 multiprocessors with `shared` bytes each.
  int64_t blocks_for(int64_t rows, int shared) const {
    const int by_threads = 2048 / (width * height), by_memory = (220 << 10) / std::max(1, shared);
    return std::min<int64_t>(ceil_div(rows, height),
                             132 * std::clamp(std::min(by_threads, by_memory), 1, 8));
  }
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

// The same for two sums at once.
__device__ inline void row_sums(float& x, float& y) {
  const int width = min(static_cast<int>(blockDim.x), kWarp);
  x = warp_sum(x, width);
  y = warp_sum(y, width);
  if (blockDim.x <= kWarp) return;
  __shared__ float of_x[kWarp], of_y[kWarp];
  __syncthreads();  // earlier sums may still be read
  if (threadIdx.x % kWarp == 0) {
    of_x[threadIdx.x / kWarp] = x;
    of_y[threadIdx.x / kWarp] = y;
  }
  __syncthreads();
  x = y = 0;
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) {
    x += of_x[warp];
    y += of_y[warp];
  }
}

// The rows of a block, one round after the other: kTensors tensors of rows alike and kNumbers
// numbers of each row; a null tensor or array has none. Packs of 16 bytes come by asynchronous
// copies, kStages - 1 rounds ahead; a thread reads only what it copied itself.
template <class T, int N, int kHeld, int kTensors, int kNumbers>
class RowQueue {
  using Slot = Pack<T, N>;
  static constexpr bool kCopies = kHeld > 0 && sizeof(Slot) == 16;
  static constexpr int kStages = 3;
  static constexpr int kBytesOfPack = static_cast<int>(
      std::max(kCopies ? kStages * kTensors * sizeof(Slot) : 0, N * sizeof(float)));

 public:
  // `shared`: of at least shared_bytes.
  __device__ RowQueue(std::byte* shared, const T* const (&tensors)[kTensors],
                      const float* const (&numbers)[kNumbers], int64_t rows, int columns)
      : slots_(reinterpret_cast<Slot*>(shared)), rows_(rows), columns_(columns) {
    for (int i = 0; i < kTensors; ++i) tensors_[i] = tensors[i];
    for (int i = 0; i < kNumbers; ++i) numbers_[i] = numbers[i];
  }

  // Also enough for ColumnSums::finish of the same rows.
  static constexpr int shared_bytes(const RowShape& shape) {
    return shape.width * shape.height * kHeld * kBytesOfPack;
  }
  static constexpr int kMostSharedBytes = shared_bytes({RowShape::most_threads(kHeld), 1, kHeld});

  // f(row, whether it exists); all threads of the block go through all rounds.
  template <class F>
  __device__ void each_row(F&& f) {
    const int64_t step = int64_t{gridDim.x} * blockDim.y;
    row_ = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
#pragma unroll
    for (int stage = 0; stage + 1 < kStages; ++stage) copy(row_ + stage * step, stage);
    float next[kNumbers];
    read_numbers(next, row_);
    for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < rows_; first += step) {
      copy(row_ + (kStages - 1) * step, stage_ == 0 ? kStages - 1 : stage_ - 1);
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) now_[i] = next[i];
      read_numbers(next, row_ + step);
      if constexpr (kCopies) wait_copies<kStages - 1>();
      f(row_, row_ < rows_);
      row_ += step;
      stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
    }
  }

  // Of the row of this round: f(column of the first, number of the pack within the thread).
  template <class F>
  __device__ void each(F&& f) const {
    const int packs = row_ < rows_ ? columns_ / N : 0;
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        if (pack(i) < packs) f(pack(i) * N, i);
    } else {
      for (int at = static_cast<int>(threadIdx.x); at < packs; at += static_cast<int>(blockDim.x))
        f(at * N, 0);
    }
  }
  __device__ void get(float (&values)[N], int tensor, int column, int i) const {
    if constexpr (kCopies)
      load(values, slot(stage_, tensor, i).values);
    else
      load(values, tensors_[tensor] + row_ * columns_ + column);
  }
  // x += y, rounded, where `x` is also the address of that tensor, and gets the sum.
  __device__ void add(float (&values)[N], int x, T* address, int y, int column, int i) {
    float other[N];
    get(values, x, column, i);
    get(other, y, column, i);
#pragma unroll
    for (int e = 0; e < N; ++e) values[e] += other[e];
    store(address + row_ * columns_ + column, values);
    if constexpr (kCopies) store(slot(stage_, x, i).values, values);
#pragma unroll
    for (int e = 0; e < N; ++e) values[e] = widened(rounded<T>(values[e]));
  }
  __device__ float number(int which) const {
    return now_[which];
  }

 private:
  __device__ int pack(int i) const {
    return i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  }
  __device__ Slot& slot(int stage, int tensor, int i) const {
    const int threads = static_cast<int>(blockDim.x * blockDim.y);
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
    return slots_[((stage * kTensors + tensor) * kHeld + i) * threads + thread];
  }
  __device__ void copy(int64_t row, int stage) const {
    if constexpr (kCopies) {
      if (row < rows_)
#pragma unroll
        for (int tensor = 0; tensor < kTensors; ++tensor) {
          if (tensors_[tensor] == nullptr) continue;
          const T* from = tensors_[tensor] + row * columns_;
#pragma unroll
          for (int i = 0; i < kHeld; ++i)
            if (pack(i) < columns_ / N)
              copy_async<16>(&slot(stage, tensor, i), from + pack(i) * N, true);
        }
      close_copies();
    }
  }
  __device__ void read_numbers(float (&to)[kNumbers], int64_t row) const {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i)
      to[i] = numbers_[i] != nullptr && row < rows_ ? numbers_[i][row] : 0;
  }

  Slot* slots_;
  const T* tensors_[kTensors];
  const float* numbers_[kNumbers];
  float now_[kNumbers] = {};
  int64_t rows_, row_ = 0;
  int columns_, stage_ = 0;
};

// A kernel over rows of this shape with the shared memory of a RowQueue.
template <class Queue, class... P, class... A>
void launch_rows(Stream& stream, const char* op, void (*kernel)(P...), int64_t blocks,
                 const RowShape& shape, const A&... arguments) {
  const int shared = Queue::shared_bytes(shape);
  // Always the same, whatever another thread launches at the same time.
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, Queue::kMostSharedBytes),
        op);
  kernel<<<static_cast<unsigned>(blocks), shape.block(), static_cast<size_t>(shared),
           queue_of(stream)>>>(arguments...);
  check(cudaGetLastError(), op);
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
