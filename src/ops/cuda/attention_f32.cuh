#pragma once
// Tiles of f32 attention: 16 x 16 threads compute kSide x kSide scores, each a square of it; rows
// ty * kEach + i and columns tx + 16 j are a thread's own, so the threads of a row are lanes of one
// warp. Sums run over ascending keys or queries in one chain of fused multiply-adds.
#include "ops/cuda/attention_tile.cuh"

namespace sextant::cuda {
namespace {

constexpr int kThreads = 256;

template <int kD>
struct Square {
  static constexpr int kSide = kD <= 128 ? 64 : 32, kEach = kSide / 16;
  static constexpr int kColumns = kD / 16;  // of a row of kD elements, for each thread
  static constexpr int kRow = kPitch<float, kD>, kTile = kSide * kRow;
  static constexpr int kWeightRow = kSide + 4, kWeights = kSide * kWeightRow;
};

__device__ inline int thread_x() {
  return static_cast<int>(threadIdx.x) % 16;
}
__device__ inline int thread_y() {
  return static_cast<int>(threadIdx.x) / 16;
}

// c[i][j] = inner product of row i of a and row j of b.
template <int kD, int kEach>
__device__ void multiply_rows_f32(float (&c)[kEach][kEach], const float* a, const float* b,
                                  int dim) {
  constexpr int kRow = Square<kD>::kRow;
  a += thread_y() * kEach * kRow;
  b += thread_x() * kRow;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) c[i][j] = 0;
#pragma unroll 2
  for (int k = 0; k < dim; k += 4) {
    float4 left[kEach], right[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) left[i] = *reinterpret_cast<const float4*>(a + i * kRow + k);
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      right[j] = *reinterpret_cast<const float4*>(b + j * 16 * kRow + k);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        c[i][j] = fmaf(left[i].x, right[j].x, c[i][j]);
        c[i][j] = fmaf(left[i].y, right[j].y, c[i][j]);
        c[i][j] = fmaf(left[i].z, right[j].z, c[i][j]);
        c[i][j] = fmaf(left[i].w, right[j].w, c[i][j]);
      }
  }
}

// c += weights b; the weights of a row are written by lanes of the warp that reads them.
template <int kD, int kEach>
__device__ void multiply_weights_f32(float (&c)[kEach][kD / 16], float* tile,
                                     const float (&weights)[kEach][kEach], const float* b) {
  using S = Square<kD>;
  tile += thread_y() * kEach * S::kWeightRow;
  b += thread_x();
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) tile[i * S::kWeightRow + thread_x() + 16 * j] = weights[i][j];
  __syncwarp();
  for (int k = 0; k < S::kSide; k += 4) {
    float left[kEach][4];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float4 four = *reinterpret_cast<const float4*>(tile + i * S::kWeightRow + k);
      left[i][0] = four.x;
      left[i][1] = four.y;
      left[i][2] = four.z;
      left[i][3] = four.w;
    }
#pragma unroll
    for (int next = 0; next < 4; ++next)
#pragma unroll
      for (int j = 0; j < kD / 16; ++j) {
        const float right = b[(k + next) * S::kRow + 16 * j];
#pragma unroll
        for (int i = 0; i < kEach; ++i) c[i][j] = fmaf(left[i][next], right, c[i][j]);
      }
  }
}

template <int kRows, int kColumns>
__device__ void clear_f32(float (&c)[kRows][kColumns]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j) c[i][j] = 0;
}

// Copies `rows` rows into a tile; complete after wait_copies and a barrier.
template <int kD>
__device__ void load_tile(float* to, const void* from, int64_t at, int64_t stride, int rows,
                          int dim) {
  load_rows<Square<kD>::kSide, kD, kThreads>(to, static_cast<const float*>(from) + at, stride, rows,
                                             dim);
}

__device__ inline void finish_loads() {
  close_copies();
  wait_copies<0>();
  __syncthreads();
}

}  // namespace
}  // namespace sextant::cuda
