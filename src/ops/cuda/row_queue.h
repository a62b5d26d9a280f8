#pragma once
// What norms of whole tokens share. A group of threads has one row at a time, of which each thread
// holds a pack or two, and several groups of a multiprocessor are at different places of their rows
// at the same time: while some wait for a sum, others compute. The rows to come arrive in shared
// memory by asynchronous copies meanwhile. Rows too long for a group are read again for each use.
#include "ops/cuda/row_norm.h"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {

// How rows lie on threads: `width` threads (blockDim.x) of a group, `height` groups (blockDim.y) of
// a block, `held` packs of a thread; 0: the row is read again. Up to a warp `width` is a power of
// two, beyond it is whole warps.
struct GroupShape {
  static constexpr int kMostThreads = 1024;  // of a block; 64 registers for each
  int width = 0, height = 0, held = 0;

  dim3 block() const { return dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)); }

  // About `threads` in a block, and at most `most_held` packs of a thread.
  static GroupShape of(int64_t packs, int most_held, int threads) {
    constexpr int kMostBarriers = 15;  // of a block, besides that of all its threads
    GroupShape shape{8, 1, 1};
    if (packs <= kWarp) {
      while (shape.width < packs) shape.width *= 2;
      shape.height = threads / shape.width;
      return shape;
    }
    while (shape.held <= most_held && shape.held * kMostThreads < packs) ++shape.held;
    if (shape.held > most_held) return {kMostThreads, 1, 0};
    shape.width = static_cast<int>(ceil_div(ceil_div(packs, shape.held), kWarp)) * kWarp;
    shape.height = std::clamp(threads / shape.width, 1, kMostBarriers);
    return shape;
  }
};

// f(integral_constant N, integral_constant kHeld, shape) for the kernel that suits rows of
// `columns`, with 1 ... kMostHeld packs of a thread, or none.
template <class T, int kMostHeld, class F>
void with_group_shape(bool is_packed, int64_t columns, int threads, F&& f) {
  with_pack<T>(is_packed, [&](auto n) {
    const GroupShape shape = GroupShape::of(columns / n, kMostHeld, threads);
    if (shape.held == 1) return f(n, std::integral_constant<int, 1>{}, shape);
    if constexpr (kMostHeld > 1)
      if (shape.held == 2) return f(n, std::integral_constant<int, 2>{}, shape);
    static_assert(kMostHeld <= 2);
    f(n, std::integral_constant<int, 0>{}, shape);
  });
}

// The mean of some numbers, and the sum of their squared differences from it.
struct Moments {
  float mean, squares;
};

// The threads that have a row together. All of them call each function, and get the same bits.
class RowGroup {
 public:
  // `columns` of the row, of which a thread has `own`.
  __device__ RowGroup(int columns, int own)
      : warps_(static_cast<int>(blockDim.x) / kWarp),
        first_warp_(static_cast<int>(threadIdx.y) * warps_),
        columns_(static_cast<float>(columns)),
        columns_of_warp_(in_warp(static_cast<float>(own))) {}

  // Sums over the threads, in the order of their warps.
  template <int kCount>
  __device__ void sum(float (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = in_warp(x[i]);
    if (blockDim.x <= kWarp) return;
    __shared__ float of_warps[2][kWarp][kCount];
    float(*own)[kCount] = of_warps[turn_] + first_warp_;
    if (threadIdx.x % kWarp == 0)
#pragma unroll
      for (int i = 0; i < kCount; ++i) own[threadIdx.x / kWarp][i] = x[i];
    wait();
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = own[0][i];
    for (int warp = 1; warp < warps_; ++warp)
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] += own[warp][i];
  }

  // The mean of what the threads of a warp have, from each thread's sum.
  __device__ float mean_of_warp(float sum) const {
    return in_warp(sum) / fmaxf(columns_of_warp_, 1);
  }
  // Of the row, from the mean of the warp and each thread's sum of squared differences from that.
  __device__ Moments moments(float mean_of_warp, float squares) {
    squares = in_warp(squares);
    if (blockDim.x <= kWarp) return {mean_of_warp, squares};
    __shared__ float4 of_warps[2][kWarp];
    float4* own = of_warps[turn_] + first_warp_;
    if (threadIdx.x % kWarp == 0)
      own[threadIdx.x / kWarp] = {mean_of_warp, squares, columns_of_warp_, 0};
    wait();
    Moments all{0, 0};
    for (int warp = 0; warp < warps_; ++warp) all.mean += own[warp].x * own[warp].z;
    all.mean /= columns_;
    for (int warp = 0; warp < warps_; ++warp) {
      const float distance = own[warp].x - all.mean;
      all.squares += own[warp].y + own[warp].z * distance * distance;
    }
    return all;
  }

 private:
  __device__ float in_warp(float x) const {
    return warp_sum(x, min(static_cast<int>(blockDim.x), kWarp));
  }
  // A barrier of the group's warps alone. Who has passed it reads what lies there while the others
  // may write for the next one, so the two take turns in what they use.
  __device__ void wait() {
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
    turn_ ^= 1;
  }

  int warps_, first_warp_, turn_ = 0;
  float columns_, columns_of_warp_;
};

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
  static constexpr int shared_bytes(const GroupShape& shape) {
    return shape.width * shape.height * kHeld * kBytesOfPack;
  }
  static constexpr int kMostSharedBytes = shared_bytes({GroupShape::kMostThreads, 1, kHeld});

  // Columns of a row that the thread has.
  __device__ int columns_of_thread() const {
    const int packs = columns_ / N, width = static_cast<int>(blockDim.x);
    return max(0, (packs - static_cast<int>(threadIdx.x) + width - 1) / width) * N;
  }

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

// Values of a row that a thread keeps from one use to the next, where it holds its packs.
template <int N, int kHeld>
struct Kept {
  float values[kHeld > 0 ? kHeld : 1][N];

  __device__ void put(int i, const float (&from)[N]) {
    if constexpr (kHeld > 0)
#pragma unroll
      for (int e = 0; e < N; ++e) values[i][e] = from[e];
  }
  // `read(to)` where they are not kept.
  template <class Read>
  __device__ void get(float (&to)[N], int i, Read&& read) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int e = 0; e < N; ++e) to[e] = values[i][e];
    } else {
      read(to);
    }
  }
};

// x += other, rounded to T.
template <class T, int N>
__device__ inline void add_rounded(float (&x)[N], const float (&other)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = widened(rounded<T>(x[i] + other[i]));
}

// Blocks of a multiprocessor for which a kernel's registers must suffice where nothing is summed
// over rows: the more rows are under way, the less a wait for a sum costs.
constexpr int least_blocks(int threads) {
  return threads == kBlock ? 5 : 1;
}

// Lets the kernel have the shared memory of a RowQueue. Always as much, whatever another thread
// launches at the same time.
template <class Queue, class... P>
void allow_shared(const char* op, void (*kernel)(P...)) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, Queue::kMostSharedBytes),
        op);
}

// Blocks that go through all rows where nothing is summed over them: as many as run at once.
template <class Queue, class... P>
int64_t blocks_of_rows(const char* op, void (*kernel)(P...), const GroupShape& shape,
                       int64_t rows) {
  allow_shared<Queue>(op, kernel);
  int at_once = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &at_once, reinterpret_cast<const void*>(kernel), shape.width * shape.height,
            static_cast<size_t>(Queue::shared_bytes(shape))),
        op);
  return std::min<int64_t>(ceil_div(rows, shape.height),
                           int64_t{kMultiprocessors} * std::max(1, at_once));
}

// A kernel over rows of this shape with the shared memory of a RowQueue.
template <class Queue, class... P, class... A>
void launch_rows(Stream& stream, const char* op, void (*kernel)(P...), int64_t blocks,
                 const GroupShape& shape, const A&... arguments) {
  if (blocks == 0) return;
  allow_shared<Queue>(op, kernel);
  kernel<<<static_cast<unsigned>(blocks), shape.block(),
           static_cast<size_t>(Queue::shared_bytes(shape)), queue_of(stream)>>>(arguments...);
  check(cudaGetLastError(), op);
}

}  // namespace sextant::cuda
