#pragma once
// What all CUDA kernels of ops share: types, 16-byte packs, launches, sums over threads.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "ops/dispatch.h"
#include "tensor/cuda/queue.h"

namespace sextant::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kBlock = 256;  // threads of a block where nothing speaks for another number
inline constexpr int64_t kMostBlocksY = 65535;

// f(T{}) for a type that kernels compute with.
template <class F>
void with_compute(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::F32:
      return f(float{});
    case DType::BF16:
      return f(bf16{});
    case DType::F16:
      return f(f16{});
    default:
      SXT_FAIL(Usage, op, ": ", name_of(dtype), " runs on the CPU only");
  }
}

// Statistics are f32 whatever the compute type.
inline void check_statistics(const char* op, const Tensor& x) {
  SXT_CHECK(x.dtype() == DType::F32, Usage, op, ": ", name_of(x.dtype()), " runs on the CPU only");
}

// f(G{}) for a result that is as narrow as T or f32, such as the gradient of a parameter.
template <class T, class F>
void with_either(const char* op, DType dtype, F&& f) {
  if (dtype == kDTypeOf<T>) return f(T{});
  SXT_CHECK(dtype == DType::F32, Usage, op, ": a result in ", name_of(dtype), ", must be ",
            name_of(kDTypeOf<T>), " or f32");
  f(float{});
}

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.data<T>() : nullptr;
}

// Elements as floats, and back by rounding to nearest even.
__device__ inline float widened(float x) {
  return x;
}
__device__ inline float widened(bf16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
__device__ inline float widened(f16 x) {
  return __half2float(__ushort_as_half(x.bits));
}
template <class T>
__device__ inline T rounded(float x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  } else if constexpr (std::is_same_v<T, f16>) {
    return {__half_as_ushort(__float2half_rn(x))};
  } else {
    static_assert(std::is_same_v<T, float>);
    return x;
  }
}

// Elements of 16 bytes: what a thread should read and write at once.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

// Some bytes that are read or written by as few instructions as their alignment allows, 16 at most.
template <class T, int N>
struct alignas(std::min<size_t>(16, N * sizeof(T))) Pack {
  T values[N];
};
static_assert(sizeof(Pack<bf16, 8>) == 16 && sizeof(Pack<float, 8>) == 32);

// N elements as floats. `from` and `to` are aligned to 16 bytes or to N elements, whichever is
// less.
template <int N, class T>
__device__ inline void load(float (&to)[N], const T* from) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = widened(pack.values[i]);
}
template <int N, class T>
__device__ inline void store(T* to, const float (&from)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = rounded<T>(from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Whether all addresses (null ones too) are multiples of 16.
inline bool are_aligned(std::initializer_list<const void*> addresses) {
  return std::ranges::all_of(addresses, [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % 16 == 0;
  });
}
// Whether rows of `columns` elements of T at these addresses can be accessed in packs.
template <class T>
bool can_pack(int64_t columns, std::initializer_list<const void*> addresses) {
  return columns % kPack<T> == 0 && are_aligned(addresses);
}
// f(std::integral_constant<int, N>{}) with N = kPack<T> or 1.
template <class T, class F>
void with_pack(bool is_packed, F&& f) {
  if (is_packed) return f(std::integral_constant<int, kPack<T>>{});
  f(std::integral_constant<int, 1>{});
}

constexpr int64_t ceil_div(int64_t value, int64_t step) {
  return (value + step - 1) / step;
}

// Puts a kernel on the stream's queue; an empty grid is none. `op` names it in an Error.
template <class... P, class... A>
void launch(Stream& stream, const char* op, void (*kernel)(P...), dim3 grid, dim3 block,
            const A&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  kernel<<<grid, block, 0, queue_of(stream)>>>(arguments...);
  check(cudaGetLastError(), op);
}

// Blocks of threads for a loop over `count` items, each of one thread.
inline dim3 grid_of(int64_t count) {
  return dim3(static_cast<unsigned>(ceil_div(count, kBlock)));
}

// A grid over [rows, packs], without a division in any thread.
struct Cells {
  dim3 grid, block;

  Cells(int64_t rows, int64_t packs) {
    int width = 1;
    while (width < kBlock && width < packs) width *= 2;
    const int height = kBlock / width;
    block = dim3(static_cast<unsigned>(width), static_cast<unsigned>(height));
    grid = dim3(static_cast<unsigned>(ceil_div(packs, width)),
                static_cast<unsigned>(std::min(ceil_div(rows, height), kMostBlocksY)));
  }
};
// f(row, pack) of this thread's cells.
template <class F>
__device__ inline void for_cells(int64_t rows, int64_t packs, F&& f) {
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
       row += int64_t{gridDim.y} * blockDim.y)
    f(row, pack);
}

// Sums over `width` neighbouring threads, a power of two up to a warp; all get the same bits.
template <class T>
__device__ inline T warp_sum(T x, int width = kWarp) {
  for (int offset = width / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
  return x;
}
template <class T>
__device__ inline T warp_max(T x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    x = max(x, __shfl_xor_sync(0xffffffff, x, offset));
  return x;
}

// Sum over a block of threads (one dimension, whole warps): the warps' sums in their order.
template <class T>
__device__ inline T block_sum(T x) {
  __shared__ T of_warps[kWarp];
  x = warp_sum(x);
  __syncthreads();  // an earlier sum may still be read
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  T sum = 0;
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) sum += of_warps[warp];
  return sum;
}

}  // namespace sextant::cuda
