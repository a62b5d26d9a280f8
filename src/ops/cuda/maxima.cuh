#pragma once
// Largest absolute values as integers, which ascend as they do with NaN above infinity. Those of
// bf16 are compared in pairs, two by one instruction; results are the bits of f32.
#include "ops/cuda/kernel.h"

namespace sextant::cuda {

inline constexpr uint32_t kMagnitudes = 0x7fff7fffU;  // of a pair

// Absolute values as integers ascend as they do, and NaN is above infinity.
__device__ inline uint32_t magnitude(float x) {
  return __float_as_uint(x) & 0x7fffffffU;
}

// Of N elements, each the largest of those at its place in the packs that were taken.
template <class T, int N>
struct Maxima {
  uint32_t of[N] = {};

  __device__ void raise(const Pack<T, N>& x) {
#pragma unroll
    for (int i = 0; i < N; ++i) of[i] = max(of[i], magnitude(widened(x.values[i])));
  }
  // With those of the lane whose number differs in the bit `offset`.
  __device__ void join_lanes(int offset) {
#pragma unroll
    for (int i = 0; i < N; ++i) of[i] = max(of[i], __shfl_xor_sync(0xffffffff, of[i], offset));
  }
  __device__ uint32_t at(int i) const {
    return of[i];
  }
  __device__ uint32_t largest() const {
    uint32_t most = of[0];
#pragma unroll
    for (int i = 1; i < N; ++i) most = max(most, of[i]);
    return most;
  }
};

template <int N>
requires(N % 2 == 0) struct Maxima<bf16, N> {
  uint32_t pairs[N / 2] = {};

  __device__ void raise(const Pack<bf16, N>& x) {
    const auto* words = reinterpret_cast<const uint32_t*>(&x);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) pairs[i] = __vmaxu2(pairs[i], words[i] & kMagnitudes);
  }
  __device__ void join_lanes(int offset) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      pairs[i] = __vmaxu2(pairs[i], __shfl_xor_sync(0xffffffff, pairs[i], offset));
  }
  __device__ uint32_t at(int i) const {
    return i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000U;
  }
  __device__ uint32_t largest() const {
    uint32_t most = pairs[0];
#pragma unroll
    for (int i = 1; i < N / 2; ++i) most = __vmaxu2(most, pairs[i]);
    return max(most << 16, most & 0xffff0000U);
  }
};

// Of each of `kRows` values, bits of f32, the largest in `kLanes` neighbouring lanes.
template <class T, int kLanes, int kRows>
__device__ inline void join_rows(uint32_t (&most)[kRows]) {
  if constexpr (std::is_same_v<T, bf16> && kRows % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kRows; i += 2) {
      uint32_t pair = most[i] >> 16 | most[i + 1];
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2)
        pair = __vmaxu2(pair, __shfl_xor_sync(0xffffffff, pair, offset));
      most[i] = pair << 16;
      most[i + 1] = pair & 0xffff0000U;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2)
        most[i] = max(most[i], __shfl_xor_sync(0xffffffff, most[i], offset));
  }
}

}  // namespace sextant::cuda
