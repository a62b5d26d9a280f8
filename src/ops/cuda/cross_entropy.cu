// A warp makes the largest logit and the sum of exponentials of kVocabBlock columns, which a lane
// reads once; one thread then joins the blocks in their order, as on the CPU: it does not matter
// how many blocks one call brings.
// Whole logits with their gradient stay on the chip between the two: a row lies in the shared
// memory of a block or, if it is long, of the blocks of a cluster, which exchange their sums.
#include "ops/cross_entropy.h"

#include <cooperative_groups.h>

#include <limits>

#include "ops/cuda/bad_rows.h"
#include "ops/cuda/warp.cuh"
#include "ops/fault_texts.h"

namespace sextant::cuda {
namespace {

constexpr int kWarps = kBlock / kWarp;
constexpr int kRound = 128;  // blocks of columns between two joins
// The largest of no logits.
constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

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

struct Targets {
  const int32_t* target;
  int64_t vocab;
  Report report;

  Targets(Stream& stream, const char* op, const Tensor& targets, int64_t words)
      : target(targets.data<int32_t>()),
        vocab(words),
        report(stream, Fault::Data, op, kBadTarget) {}

  __device__ bool counts(int64_t row) const { return target[row] >= 0 && target[row] < vocab; }
  // By one thread of a row.
  __device__ void report_bad(int64_t row) const {
    const auto is_bad = [this](int32_t value) {
      return value != -1 && (value < 0 || value >= vocab);
    };
    if (is_bad(target[row]) && is_first_bad(target, row, is_bad)) report(target[row], row, vocab);
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

constexpr int kMostShare = 72 << 10;  // bytes of a row in a block: three fit a multiprocessor
constexpr int kMostCluster = 8;       // blocks of a row

// exp(x) in two instructions; exact at 0, and 0 instead of numbers below 2^-126.
__device__ inline float short_exp(float x) {
  constexpr float kLog2E = 1.4426950408889634F;
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x * kLog2E));
  return out;
}

// Of some columns: the largest logit, the sum of exponentials relative to it, and the logit of the
// target, 0 if that is another's.
struct Share {
  float max = kLowest, sum = 0, target = 0;

  __device__ void join(const Share& other) {
    const float largest = fmaxf(max, other.max);
    sum = sum * short_exp(max - largest) + other.sum * short_exp(other.max - largest);
    max = largest;
    target += other.target;
  }
};

template <class T>
struct Whole {
  float *loss, *lse, *running;
  T* logits;
  Targets targets;
  int packs;  // of a row
  int64_t real;
  const double* scale;
  float z;
};

// The logits of a pack, of which `left` are no padding.
template <class T, int N>
__device__ inline void load_real(float (&values)[N], const Pack<T, N>& pack, int64_t left) {
  load(values, pack.values);
  if (left >= N) return;
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = i < left ? values[i] : kNothing;
}

// A cluster of blocks for each row. A thread reads only the packs that it copied itself.
template <class T>
__global__ void __launch_bounds__(kBlock) whole_kernel(const Whole<T> p) {
  constexpr int N = kPack<T>;
  const auto cluster = cooperative_groups::this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks());
  const int block = static_cast<int>(cluster.block_rank());
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x / cluster.num_blocks();
  const int most = (p.packs + blocks - 1) / blocks, first = block * most;
  const int count = max(0, min(most, p.packs - first));
  auto* logits = reinterpret_cast<Pack<T, N>*>(p.logits) + row * p.packs + first;
  auto* kept = reinterpret_cast<Pack<T, N>*>(shared_memory());
  if (block == 0 && thread == 0) p.targets.report_bad(row);
  if (!p.targets.counts(row)) {
    for (int i = thread; i < count; i += kBlock) logits[i] = {};
    if (block != 0 || thread != 0) return;
    p.running[row * 3] = kNothing;
    p.running[row * 3 + 1] = p.running[row * 3 + 2] = p.lse[row] = p.loss[row] = 0;
    return;
  }
  for (int i = thread; i < count; i += kBlock) copy_async<16>(&kept[i], &logits[i], true);
  close_copies();
  wait_copies<0>();
  Share all;
  for (int i = thread; i < count; i += kBlock) {
    float values[N];
    load_real(values, kept[i], p.real - int64_t{first + i} * N);
    float largest = all.max;
#pragma unroll
    for (int e = 0; e < N; ++e) largest = fmaxf(largest, values[e]);
    all.sum *= short_exp(all.max - largest);
    all.max = largest;
#pragma unroll
    for (int e = 0; e < N; ++e) all.sum += short_exp(values[e] - largest);
  }
  __shared__ Share of_warps[kWarps], of_blocks[kMostCluster];
  const float largest = warp_max(all.max);
  all.sum = warp_sum(all.sum * short_exp(all.max - largest));
  if (thread % kWarp == 0) of_warps[thread / kWarp] = {largest, all.sum};
  __syncthreads();
  all = of_warps[0];
  for (int warp = 1; warp < kWarps; ++warp) all.join(of_warps[warp]);
  const int target = p.targets.target[row], own = target / N - first;  // the pack of the target
  if (own >= 0 && own < count) all.target = widened(kept[own].values[target % N]);
  cluster.sync();  // the other blocks have started
  if (thread < blocks) cluster.map_shared_rank(of_blocks, thread)[block] = all;
  cluster.sync();
  all = of_blocks[0];
  for (int other = 1; other < blocks; ++other) all.join(of_blocks[other]);
  const float log_sum = all.max + logf(all.sum);
  if (block == 0 && thread == 0) {
    const float cross = log_sum - all.target;
    p.running[row * 3] = all.max;
    p.running[row * 3 + 1] = all.sum;
    p.running[row * 3 + 2] = all.target;
    p.lse[row] = log_sum;
    p.loss[row] = p.z == 0 ? cross : cross + p.z * log_sum * log_sum;
  }
  const float factor = static_cast<float>(*p.scale), more = p.z == 0 ? 1 : 1 + 2 * p.z * log_sum;
  const float softmax_factor = more * factor;
  for (int i = thread; i < count; i += kBlock) {
    float values[N];
    load_real(values, kept[i], p.real - int64_t{first + i} * N);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float softmax = short_exp(values[e] - log_sum);
      // As in backward_kernel.
      const bool is_target = i == own && e == target % N;
      values[e] = is_target ? (softmax * more - 1) * factor : softmax * softmax_factor;
    }
    store(logits[i].values, values);
  }
}

// Blocks of a row; 0 if it does not fit a cluster of them.
int cluster_of(int64_t bytes) {
  int blocks = 1;
  while (ceil_div(bytes / 16, blocks) * 16 > kMostShare)
    if ((blocks *= 2) > kMostCluster) return 0;
  return blocks;
}

template <class T>
void launch_whole(Stream& stream, const Whole<T>& whole, int64_t rows, int blocks) {
  constexpr const char* kOp = "cross_entropy";
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(whole_kernel<T>),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShare),
        kOp);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(rows * blocks));
  config.blockDim = kBlock;
  config.dynamicSmemBytes = static_cast<size_t>(ceil_div(whole.packs, blocks)) * 16;
  config.stream = queue_of(stream);
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, whole_kernel<T>, whole), kOp);
}

int64_t real_width(const Tensor& logits, int64_t first_column, int64_t vocab) {
  return std::clamp<int64_t>(vocab - first_column, 0, logits.dim(1));
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

void cross_entropy(Stream& stream, Tensor& loss, Tensor& lse, Tensor& running, Tensor& logits,
                   const Tensor& targets, int64_t vocab, const Tensor& scale, double z_loss) {
  const int64_t rows = logits.dim(0), width = logits.dim(1);
  if (rows == 0) return;
  with_compute("cross_entropy", logits.dtype(), [&]<class T>(T) {
    const int blocks = cluster_of(width * size_of(logits.dtype()));
    if (blocks == 0 || !can_pack<T>(width, {logits.raw()})) {
      cuda::cross_entropy_begin(stream, running);
      cuda::cross_entropy_chunk(stream, running, logits, targets, 0, vocab);
      cuda::cross_entropy_end(stream, loss, lse, running, targets, z_loss);
      return cuda::cross_entropy_backward(stream, logits, lse, targets, 0, vocab, scale, z_loss);
    }
    launch_whole(stream,
                 Whole<T>{.loss = loss.data<float>(),
                          .lse = lse.data<float>(),
                          .running = running.data<float>(),
                          .logits = logits.data<T>(),
                          .targets = {stream, "cross_entropy", targets, vocab},
                          .packs = static_cast<int>(width / kPack<T>),
                          .real = real_width(logits, 0, vocab),
                          .scale = scale.data<double>(),
                          .z = static_cast<float>(z_loss)},
                 rows, blocks);
  });
}

}  // namespace sextant::cuda
