// A warp makes the largest logit and the sum of exponentials of kVocabBlock columns, which a lane
// reads once; one thread then joins the blocks in their order, as on the CPU: it does not matter
// how many blocks one call brings.
#include "ops/cross_entropy.h"

#include "ops/cuda/cross_entropy.cuh"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {
namespace {

constexpr int kWarps = kBlock / kWarp;
constexpr int kRound = 128;  // blocks of columns between two joins

struct Running {
  float max = kNothing, sum = 0;

  __device__ void join(float block_max, float block_sum) {
    if (block_max > max) {
      sum = sum * expf(max - block_max) + block_sum;
      max = block_max;
    } else {
      sum += block_sum * expf(block_max - max);
    }
  }
};

// A lane's columns of a block: `count` of them exist from x on. Which column is whose does not
// depend on the alignment, so the bits of a sum do not either. Others are -infinity.
template <class T>
__device__ void load_block(float (&values)[kVocabBlock / kWarp], const T* x, int count) {
  constexpr int N = kPack<T>;
  const bool is_aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
#pragma unroll
  for (int step = 0; step < kVocabBlock / (kWarp * N); ++step) {
    const int first = (step * kWarp + static_cast<int>(threadIdx.x) % kWarp) * N;
    if (is_aligned && first + N <= count) {
      const auto pack = *reinterpret_cast<const Pack<T, N>*>(x + first);
#pragma unroll
      for (int i = 0; i < N; ++i) values[step * N + i] = widened(pack.values[i]);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i)
        values[step * N + i] = first + i < count ? widened(x[first + i]) : kNothing;
    }
  }
}

// Logits of -infinity add nothing, even when they fill a block; a NaN makes the sum NaN.
template <class T>
__device__ Running of_block(const T* x, int count) {
  constexpr int kColumns = kVocabBlock / kWarp;
  float values[kColumns];
  load_block(values, x, count);
  float largest = kLowest;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) largest = fmaxf(largest, values[i]);
  largest = warp_max(largest);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) sum += expf(values[i] - largest);
  return {largest, warp_sum(sum)};
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    chunk_kernel(float* running, const T* logits, Targets targets, int64_t width, int64_t real,
                 int64_t first_column) {
  const int64_t row = blockIdx.x;
  if (threadIdx.x == 0) targets.report_bad(row);
  if (!targets.counts(row)) return;
  const T* x = logits + row * width;
  float* values = running + row * 3;
  Running all;
  if (threadIdx.x == 0) all = {values[0], values[1]};
  __shared__ float maxima[kRound], sums[kRound];    // of blocks
  const int64_t skip = first_column % kVocabBlock;  // columns of the first block in other chunks
  const int64_t blocks = real == 0 ? 0 : (skip + real + kVocabBlock - 1) / kVocabBlock;
  for (int64_t base = 0; base < blocks; base += kRound) {
    const int count = static_cast<int>(min(int64_t{kRound}, blocks - base));
    for (int i = static_cast<int>(threadIdx.x) / kWarp; i < count; i += kWarps) {
      const int64_t begin = max(int64_t{0}, (base + i) * kVocabBlock - skip);
      const int64_t end = min(real, (base + i + 1) * kVocabBlock - skip);
      const Running block = of_block(x + begin, static_cast<int>(end - begin));
      if (threadIdx.x % kWarp != 0) continue;
      maxima[i] = block.max;
      sums[i] = block.sum;
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < count; ++i) all.join(maxima[i], sums[i]);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  values[0] = all.max;
  values[1] = all.sum;
  const int64_t own = targets.target[row] - first_column;
  if (own >= 0 && own < real) values[2] = widened(x[own]);
}

__global__ void begin_kernel(float* running, int64_t tokens) {
  const int64_t token = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  running[token * 3] = kNothing;
  running[token * 3 + 1] = 0;
  running[token * 3 + 2] = 0;
}

// A rank that saw no column still has its first values, -infinity, 0 and 0; with another sum it
// saw a NaN. The target lies with one rank at most: elsewhere its logit is 0.
__global__ void join_kernel(float* running, const float* parts, int64_t ranks, int64_t tokens) {
  const int64_t token = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  Running all;
  float own = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const float* part = parts + (rank * tokens + token) * 3;
    if (part[0] == kNothing && part[1] == 0) continue;
    all.join(part[0], part[1]);
    own += part[2];
  }
  running[token * 3] = all.max;
  running[token * 3 + 1] = all.sum;
  running[token * 3 + 2] = own;
}

// A token of which no chunk counted a column has a bad target, which was reported.
__global__ void end_kernel(float* loss, float* lse, const float* running, const int32_t* target,
                           int64_t tokens, float z) {
  const int64_t token = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  const float* values = running + token * 3;
  const bool is_out = target[token] < 0 || (values[0] == kNothing && values[1] == 0);
  const float log_sum = is_out ? 0 : values[0] + logf(values[1]);
  const float cross = log_sum - values[2];
  lse[token] = log_sum;
  loss[token] = is_out ? 0 : z == 0 ? cross : cross + z * log_sum * log_sum;
}

template <class T, int N>
__global__ void backward_kernel(T* logits, const float* lse, Targets targets, int64_t rows,
                                int64_t packs, int64_t real, int64_t first_column,
                                const double* scale, float z) {
  const float factor = static_cast<float>(*scale);
  for_cells(rows, packs, [&](int64_t row, int64_t pack) {
    if (pack == 0) targets.report_bad(row);
    T* x = logits + (row * packs + pack) * N;
    float values[N] = {};
    if (targets.counts(row)) {
      const float log_sum = lse[row];
      const float more = z == 0 ? 1 : 1 + 2 * z * log_sum, softmax_factor = more * factor;
      const int64_t own = targets.target[row] - first_column - pack * N;
      const int64_t left = real - pack * N;  // columns from this pack on that are no padding
      load(values, x);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float softmax = expf(values[i] - log_sum);
        // Softmax - 1 first, then the scale: the rounding of a product must not enter the
        // difference.
        const float gradient = i == own ? (softmax * more - 1) * factor : softmax * softmax_factor;
        values[i] = i < left ? gradient : 0;
      }
    }
    store(x, values);
  });
}

}  // namespace

void cross_entropy_begin(Stream& stream, Tensor& running) {
  check_statistics("cross_entropy_begin", running);
  launch(stream, "cross_entropy_begin", begin_kernel, grid_of(running.dim(0)), kBlock,
         running.data<float>(), running.dim(0));
}

void cross_entropy_chunk(Stream& stream, Tensor& running, const Tensor& logits,
                         const Tensor& targets, int64_t first_column, int64_t vocab) {
  const Targets all(stream, "cross_entropy_chunk", targets, vocab);
  with_compute("cross_entropy_chunk", logits.dtype(), [&]<class T>(T) {
    launch(stream, "cross_entropy_chunk", chunk_kernel<T>, static_cast<unsigned>(logits.dim(0)),
           kBlock, running.data<float>(), logits.data<T>(), all, logits.dim(1),
           real_width(logits, first_column, vocab), first_column);
  });
}

void cross_entropy_join(Stream& stream, Tensor& running, const Tensor& parts) {
  check_statistics("cross_entropy_join", parts);
  launch(stream, "cross_entropy_join", join_kernel, grid_of(parts.dim(1)), kBlock,
         running.data<float>(), parts.data<float>(), parts.dim(0), parts.dim(1));
}

void cross_entropy_end(Stream& stream, Tensor& loss, Tensor& lse, const Tensor& running,
                       const Tensor& targets, double z_loss) {
  check_statistics("cross_entropy_end", running);
  launch(stream, "cross_entropy_end", end_kernel, grid_of(running.dim(0)), kBlock,
         loss.data<float>(), lse.data<float>(), running.data<float>(), targets.data<int32_t>(),
         running.dim(0), static_cast<float>(z_loss));
}

void cross_entropy_backward(Stream& stream, Tensor& logits, const Tensor& lse,
                            const Tensor& targets, int64_t first_column, int64_t vocab,
                            const Tensor& scale, double z_loss) {
  const Targets all(stream, "cross_entropy_backward", targets, vocab);
  const int64_t rows = logits.dim(0), width = logits.dim(1);
  with_compute("cross_entropy_backward", logits.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(width, {logits.raw()}), [&]<int N>(std::integral_constant<int, N>) {
      const Cells cells(rows, width / N);
      launch(stream, "cross_entropy_backward", backward_kernel<T, N>, cells.grid, cells.block,
             logits.data<T>(), lse.data<float>(), all, rows, width / N,
             real_width(logits, first_column, vocab), first_column, scale.data<double>(),
             static_cast<float>(z_loss));
    });
  });
}

}  // namespace sextant::cuda
