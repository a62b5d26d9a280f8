#pragma once
// fp8 numbers, their scales and the tiles that share a scale, on a GPU.
#include <cuda_fp8.h>

#include "ops/cuda/kernel.h"
#include "ops/cuda/maxima.cuh"
#include "ops/quantize.h"
#include "tensor/convert.h"

namespace sextant::cuda {

template <class Q>
inline constexpr float kLargestFp8 = std::is_same_v<Q, f8e4m3> ? 448.0F : 57344.0F;

// The formulas of fp8_scale and fp8_factor.
__device__ inline float at_least_normal(float amax, float largest) {
  const float least = largest * 0x1p-126F;
  return amax < least ? least : amax;
}
__device__ inline float scale_of(float amax, float largest) {
  return amax == 0 ? 1.0F : at_least_normal(amax, largest) / largest;
}
__device__ inline float factor_of(float amax, float largest) {
  return amax == 0 ? 1.0F : largest / at_least_normal(amax, largest);
}

// x * factor to nearest even; finite values saturate, infinity becomes NaN.
__device__ inline float before_rounding(float x, float factor) {
  return x * factor - (x - x);
}
template <class Q, int N>
__device__ inline void round_to_fp8(Pack<Q, N>& to, const float (&from)[N]) {
  constexpr auto kKind = std::is_same_v<Q, f8e4m3> ? __NV_E4M3 : __NV_E5M2;
  if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const __nv_fp8x2_storage_t pair =
          __nv_cvt_float2_to_fp8x2({from[i], from[i + 1]}, __NV_SATFINITE, kKind);
      to.values[i] = {static_cast<uint8_t>(pair)};
      to.values[i + 1] = {static_cast<uint8_t>(pair >> 8)};
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      to.values[i] = {__nv_cvt_float_to_fp8(from[i], __NV_SATFINITE, kKind)};
  }
}

// fp8 numbers as floats, pairs by one instruction: f16 holds each of them.
template <class Q, int N>
__device__ inline void widen_fp8(float (&to)[N], const Pack<Q, N>& pack) {
  if constexpr (N % 2 == 0) {
    constexpr auto kKind = std::is_same_v<Q, f8e4m3> ? __NV_E4M3 : __NV_E5M2;
    const auto* pairs = reinterpret_cast<const __nv_fp8x2_storage_t*>(&pack);
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(pairs[i / 2], kKind);
      to[i] = __half2float(__ushort_as_half(halves.x));
      to[i + 1] = __half2float(__ushort_as_half(halves.y));
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = widen(pack.values[i]);
  }
}
template <class Q, int N>
__device__ inline void load_fp8(float (&to)[N], const Q* from) {
  widen_fp8<Q, N>(to, *reinterpret_cast<const Pack<Q, N>*>(from));
}

// ScaleBlock as kernels read it.
struct Tiles {
  int64_t rows, columns, part_rows, blocks_of_part;

  explicit Tiles(const ScaleBlock& block)
      : rows(block.rows),
        columns(block.columns),
        part_rows(block.part_rows),
        blocks_of_part(block.part_rows > 0 && block.rows > 0 ? block.blocks_of_part() : 0) {}
  __device__ int64_t row_of(int64_t row) const {
    if (rows == 0) return 0;
    if (part_rows == 0) return row / rows;
    return row / part_rows * blocks_of_part + row % part_rows / rows;
  }
  __device__ int64_t column_of(int64_t column) const {
    return columns == 0 ? 0 : columns == 1 ? column : column / columns;
  }
};

// f(Q{}) for an fp8 type.
template <class F>
void with_fp8(DType dtype, F&& f) {
  if (dtype == DType::F8E4M3) return f(f8e4m3{});
  f(f8e5m2{});
}

}  // namespace sextant::cuda
