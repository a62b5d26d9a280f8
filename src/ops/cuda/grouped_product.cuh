#pragma once
// Tiles of the products of grouped_linear: c[m, n] = sum over k of a[m, k] b[n, k], in f32. In
// memory an operand is contiguous along k, or along its own side, m or n. The sum of an element has
// the same order wherever it lies in a tile: its bits depend on its row, its weights and k alone.
#include "ops/cuda/kernel.h"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {

enum class Along { K, Side };

// The part of an operand from the first element of a tile on.
template <class T>
struct Operand {
  const T* data;
  int64_t stride;  // elements between lines
  int count;       // of its side that exist; a tile may be larger

  template <Along kAlong>
  __device__ const T* at(int64_t side, int64_t k) const {
    return data + (kAlong == Along::K ? side * stride + k : k * stride + side);
  }
};

inline constexpr int kTileThreads = 256;

// bf16 and f16, on tensor cores. Eight warps have 64 x 32 elements each. Tiles of 32 k go through
// shared memory, some of them under way. kPacked: all lines are multiples of 16 bytes, at addresses
// that are such, too; else elements are read one by one.
template <class T, Along kA, Along kB, bool kPacked>
struct TensorCoreTile {
  static constexpr int kSide = 128, kDepth = 32, kStages = 4;
  static constexpr bool kPairs = kPacked;  // whether two neighbours can be written at once
  static constexpr int kBlocks = 2;        // of a multiprocessor

  // Elements between lines in shared memory: 16 bytes more than a line, so that eight lines of 16
  // bytes lie in different banks.
  template <Along kAlong>
  static constexpr int kPitch = (kAlong == Along::K ? kDepth : kSide) + 8;
  template <Along kAlong>
  static constexpr int kElements = (kAlong == Along::K ? kSide : kDepth) * kPitch<kAlong>;
  static constexpr int kStage = kElements<kA> + kElements<kB>;
  static constexpr int kShared = kStages * kStage * static_cast<int>(sizeof(T));

  // Starts to read [kSide, kDepth] elements from k on; those that do not exist are 0.
  template <Along kAlong>
  static __device__ void read(T* to, const Operand<T>& from, int64_t first_k, int64_t depth) {
    constexpr int kLine = kAlong == Along::K ? kDepth : kSide, kUnit = kPacked ? 8 : 1;
    constexpr int kUnits = kLine / kUnit;  // of a line
#pragma unroll 2
    for (int i = 0; i < kSide * kDepth / kUnit / kTileThreads; ++i) {
      const int unit = i * kTileThreads + static_cast<int>(threadIdx.x);
      const int line = unit / kUnits, at = unit % kUnits * kUnit;
      const int side = kAlong == Along::K ? line : at;
      const int64_t k = first_k + (kAlong == Along::K ? at : line);
      const bool is_there = side < from.count && k < depth;
      const T* source = is_there ? from.template at<kAlong>(side, k) : from.data;
      T* target = to + line * kPitch<kAlong> + at;
      if constexpr (kPacked)
        copy_async<16>(target, source, is_there);
      else
        *target = is_there ? *source : T{};
    }
  }

  // Fragments of 16 m x 16 k, and of 16 n x 16 k: two of B, in out[0], out[1] and out[2], out[3].
  static __device__ void load_a(uint32_t (&out)[4], const T* tile, int m, int k) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kA == Along::K)
      load_matrices(out, tile + (m + lane % 16) * kPitch<kA> + k + lane / 16 * 8);
    else
      load_transposed(out,
                      tile + (k + lane / 16 * 8 + lane % 8) * kPitch<kA> + m + lane / 8 % 2 * 8);
  }
  static __device__ void load_b(uint32_t (&out)[4], const T* tile, int n, int k) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kB == Along::K)
      load_matrices(out, tile + (n + lane / 16 * 8 + lane % 8) * kPitch<kB> + k + lane / 8 % 2 * 8);
    else
      load_transposed(out,
                      tile + (k + lane / 8 % 2 * 8 + lane % 8) * kPitch<kB> + n + lane / 16 * 8);
  }

  // put(row, column, c[row, column], c[row, column + 1]) for all elements of a tile of which the
  // first exists; the second may not.
  template <class Put>
  static __device__ void run(const Operand<T>& a, const Operand<T>& b, int64_t depth,
                             const Put& put) {
    T* shared = reinterpret_cast<T*>(shared_memory());
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int first_m = warp / 4 * 64, first_n = warp % 4 * 32;
    const int64_t tiles = (depth + kDepth - 1) / kDepth;
    const auto start = [&](int64_t tile) {
      T* stage = shared + tile % kStages * kStage;
      if (tile < tiles) {
        read<kA>(stage, a, tile * kDepth, depth);
        read<kB>(stage + kElements<kA>, b, tile * kDepth, depth);
      }
      close_copies();
    };
    float sums[4][4][4] = {};
    for (int tile = 0; tile < kStages - 1; ++tile) start(tile);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      wait_copies<kStages - 2>();  // for this one
      __syncthreads();  // for all threads' parts of it, and for the use of the one before
      start(tile + kStages - 1);
      const T* stage = shared + tile % kStages * kStage;
#pragma unroll
      for (int k = 0; k < kDepth; k += 16) {
        uint32_t of_a[4][4], of_b[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) load_a(of_a[i], stage, first_m + i * 16, k);
#pragma unroll
        for (int j = 0; j < 2; ++j) load_b(of_b[j], stage + kElements<kA>, first_n + j * 16, k);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j)
            multiply_add<T>(sums[i][j], of_a[i], of_b[j / 2][j % 2 * 2],
                            of_b[j / 2][j % 2 * 2 + 1]);
      }
    }
    wait_copies<0>();
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = first_m + i * 16 + half * 8 + lane / 4;
          const int column = first_n + j * 8 + lane % 4 * 2;
          if (row < a.count && column < b.count)
            put(row, column, sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
        }
  }
};

// f32: each thread has 4 x 4 elements, one chain of fused multiply-adds each, in ascending k.
template <Along kA, Along kB>
struct F32Tile {
  static constexpr int kSide = 64, kDepth = 16;
  static constexpr bool kPairs = false;
  static constexpr int kBlocks = 2;
  static constexpr int kPitch = kSide + 4;
  static constexpr int kElements = kDepth * kPitch;  // [k, side] in shared memory
  static constexpr int kShared = 2 * kElements * static_cast<int>(sizeof(float));

  template <Along kAlong>
  static __device__ void read(float* to, const Operand<float>& from, int64_t first_k,
                              int64_t depth) {
#pragma unroll
    for (int i = 0; i < kSide * kDepth / kTileThreads; ++i) {
      const int unit = i * kTileThreads + static_cast<int>(threadIdx.x);
      const int side = kAlong == Along::K ? unit / kDepth : unit % kSide;
      const int k = kAlong == Along::K ? unit % kDepth : unit / kSide;
      const bool is_there = side < from.count && first_k + k < depth;
      to[k * kPitch + side] = is_there ? *from.template at<kAlong>(side, first_k + k) : 0;
    }
  }

  template <class Put>
  static __device__ void run(const Operand<float>& a, const Operand<float>& b, int64_t depth,
                             const Put& put) {
    float* of_a = reinterpret_cast<float*>(shared_memory());
    float* of_b = of_a + kElements;
    const int first_m = static_cast<int>(threadIdx.x) / 16 * 4;
    const int first_n = static_cast<int>(threadIdx.x) % 16 * 4;
    float sums[4][4] = {};
    for (int64_t first_k = 0; first_k < depth; first_k += kDepth) {
      __syncthreads();  // the tile before is read
      read<kA>(of_a, a, first_k, depth);
      read<kB>(of_b, b, first_k, depth);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        float m[4], n[4];
        load(m, of_a + k * kPitch + first_m);
        load(n, of_b + k * kPitch + first_n);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(m[i], n[j], sums[i][j]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; j += 2)
        if (first_m + i < a.count && first_n + j < b.count)
          put(first_m + i, first_n + j, sums[i][j], sums[i][j + 1]);
  }
};

}  // namespace sextant::cuda
