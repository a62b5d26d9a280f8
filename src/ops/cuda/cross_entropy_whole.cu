// Whole logits with their gradient stay on the chip between the two: a row lies in the shared
// memory of a block or, if it is long, of the blocks of a cluster, which exchange their sums.
#include "ops/cross_entropy.h"

#include <cooperative_groups.h>

#include "ops/cuda/cross_entropy.cuh"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {
namespace {

constexpr int kWarps = kBlock / kWarp;
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
      // As in backward_kernel of cross_entropy.cu.
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

}  // namespace

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
