#pragma once
// Sums over rows, such as the gradient of a norm's weight, in two steps of fixed order: each block
// of threads adds up some rows, its sums lie in the shared scratch, and a second kernel folds them.
// How many blocks there are depends on the shape alone, not on the GPU, and so do the bits.
#include <span>

#include "ops/cuda/kernel.h"

namespace sextant::cuda {

inline constexpr int kMultiprocessors = 132;  // of an H200: sums do not depend on the GPU
inline constexpr int64_t kMostPartials = 4 * kMultiprocessors;

// Blocks of rows whose sums of `width` floats fit the shared scratch; one at least does.
inline int64_t partials_of(Stream& stream, int64_t blocks, int64_t width,
                           int64_t most = kMostPartials) {
  const auto floats = static_cast<int64_t>(stream.shared_scratch().size() / sizeof(float));
  const int64_t fit = floats / std::max<int64_t>(1, width);
  SXT_CHECK(fit > 0, Usage, "sums over rows of ", width, " columns, must be at most ", floats);
  return std::max<int64_t>(1, std::min({blocks, fit, most}));
}

inline constexpr int kSummedRows = kBlock / kWarp;  // that a block of threads adds at a time

// Writes the sums of a block of kSummedRows warps, of which each thread has those of N columns,
// into row blockIdx.y of partial.   partial: [gridDim.y, columns]
template <int N>
__device__ void store_partial(float* partial, const float (&sums)[N], int64_t columns) {
  __shared__ float of_warps[kSummedRows][kWarp * N];
#pragma unroll
  for (int i = 0; i < N; ++i) of_warps[threadIdx.y][threadIdx.x * N + i] = sums[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y) * kWarp + static_cast<int>(threadIdx.x); i < kWarp * N;
       i += kBlock) {
    const int64_t own = int64_t{blockIdx.x} * kWarp * N + i;
    if (own >= columns) continue;
    float sum = 0;
    for (int warp = 0; warp < kSummedRows; ++warp) sum += of_warps[warp][i];
    partial[blockIdx.y * columns + own] = sum;
  }
}

inline constexpr int kFoldRows = 32;  // threads of a column

// out[column] = sum of the partial sums: of every 32nd block first, then of these. The columns from
// `columns` on are those of `second`.
template <class G>
__global__ void __launch_bounds__(kWarp* kFoldRows)
    fold_kernel(G* out, G* second, const float* partial, int partials, int64_t stride,
                int64_t columns, Write write) {
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (column < stride)
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.y); i < partials; i += kFoldRows)
      sum += partial[i * stride + column];
  __shared__ float sums[kFoldRows][kWarp + 1];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= stride) return;
  for (int i = 1; i < kFoldRows; ++i) sum += sums[i][threadIdx.x];
  G& to = column < columns ? out[column] : second[column - columns];
  to = rounded<G>(write == Write::Replace ? sum : widened(to) + sum);
}

// partial: [partials, columns], or [partials, 2 * columns] with those of `second` behind.
template <class G>
void fold(Stream& stream, const char* op, G* out, G* second, const float* partial, int64_t partials,
          int64_t columns, Write write) {
  const int64_t stride = second == nullptr ? columns : 2 * columns;
  launch(stream, op, fold_kernel<G>, static_cast<unsigned>(ceil_div(stride, kWarp)),
         dim3(kWarp, kFoldRows), out, second, partial, static_cast<int>(partials), stride, columns,
         write);
}

}  // namespace sextant::cuda
