#pragma once
// Instructions that C++ has no words for: asynchronous copies to shared memory, fragments of
// matrices, products on tensor cores. A fragment is a warp's share of a matrix in registers.
//   A, 16 x 16: lane l has rows l/4 and l/4 + 8, columns 2(l%4) and the next, the same 8 further
//   B, 16 x 8:  lane l has column l/4, rows 2(l%4) and the next, the same 8 further
//   C, 16 x 8:  lane l has rows l/4 (c[0], c[1]) and l/4 + 8, columns 2(l%4) and the next
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace sextant::cuda {

// The dynamic shared memory of the block.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(128) std::byte dynamic_shared_memory[];
  return dynamic_shared_memory;
}

// Starts a copy of kBytes (4, 8, 16) to shared memory; zeros when the source is not to be read.
template <int kBytes>
__device__ inline void copy_async(void* to, const void* from, bool is_read) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const int read = is_read ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(address), "l"(from),
                 "r"(read), "n"(kBytes)
                 : "memory");
}

// Closes a group of the copies started since the last one; waits until at most kOpen are under way.
__device__ inline void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kOpen>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

// Four 8 x 8 matrices of 2-byte elements; lanes 8i ... 8i + 7 give the addresses of the rows of
// matrix i.
__device__ inline void load_matrices(uint32_t (&out)[4], const void* row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}
// The same, each matrix transposed.
__device__ inline void load_transposed(uint32_t (&out)[4], const void* row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}

// c += a b, accumulated in f32.
template <class T>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  if constexpr (std::is_same_v<T, bf16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 2^x within 2^-22 of its value; 0 where that would be subnormal.
__device__ inline float exp2_fast(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

// Two neighbours in memory, rounded to nearest even; `low` is the first.
template <class T>
__device__ inline uint32_t pack(float low, float high) {
  uint32_t out;
  if constexpr (std::is_same_v<T, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

template <class T>
__device__ inline float2 unpack(uint32_t pair) {
  if constexpr (std::is_same_v<T, bf16>)
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U)};
  else
    return {__half2float(__ushort_as_half(static_cast<uint16_t>(pair))),
            __half2float(__ushort_as_half(static_cast<uint16_t>(pair >> 16)))};
}

}  // namespace sextant::cuda
