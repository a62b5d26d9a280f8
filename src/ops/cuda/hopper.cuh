#pragma once
// Instructions of compute capability 9.0 (sm_90a): barriers in shared memory, copies of boxes of a
// tensor to it (TMA), and products of a warpgroup, four neighbouring warps, on tensor cores
// (wgmma). Addresses are those of the shared window.
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace sextant::cuda::hopper {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A barrier completes a phase when `arrivals` threads have arrived and the bytes that they expect
// have been copied. Its phases are told apart by their parity; the one before the first has 1.
__device__ inline void make_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// After all make_barrier and before the __syncthreads that shows them to the other threads.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_expecting(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
  uint32_t is_done = 0;
  while (is_done == 0)
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(is_done)
        : "r"(barrier), "r"(parity)
        : "memory");
}

// Starts to copy a box of a matrix, whose first element is at (row, column), by one thread.
__device__ inline void copy_box(uint32_t to, const CUtensorMap& map, uint32_t barrier, int row,
                                int column) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Before tensor cores or the copy engine read what this thread wrote to shared memory.
__device__ inline void publish_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void clear_16(uint32_t address) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}
// A barrier of some warps of the block.
template <int kNumber, int kThreads>
__device__ inline void meet() {
  asm volatile("bar.sync %0, %1;" ::"n"(kNumber), "n"(kThreads) : "memory");
}

// The registers of each thread of a warpgroup from here on.
template <int kRegisters>
__device__ inline void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Products of a warpgroup run beside it: begin_products() after its last access to the sums, then
// multiply_add() some times and end_products(); wait_products<n>() until at most n such groups are
// under way.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kOpen>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// Keeps the compiler from moving accesses to the sums across.
template <int kCount>
__device__ inline void pin(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// How an operand lies in shared memory: in lines of 128 bytes whose 16-byte units are swizzled as
// copy_box does it, eight of them, aligned to 1024 bytes, after the other. Along::K: a line has 64
// neighbours along k. Along::Side: a line has 64 neighbours along m or n, and there are 64 lines,
// one for each k, before those of the next 64 m or n.
inline constexpr int kLineBytes = 128, kSwizzleBytes = 1024, kColumnBytes = 64 * kLineBytes;
enum class Along { K, Side };
template <Along kAlong>
__device__ inline uint64_t describe(uint32_t address) {
  constexpr uint64_t kUnit = 16, kSwizzle128 = 1, kNotUsed = 1;
  constexpr uint64_t kLeading = kAlong == Along::K ? kNotUsed : kColumnBytes / kUnit;
  return kSwizzle128 << 62 | kSwizzleBytes / kUnit << 32 | kLeading << 16 |
         (address & 0x3ffff) / kUnit;
}

// sums += A B of 64 m, 256 n and 16 k. Thread t has the rows t / 32 * 16 + t % 32 / 4, in sums[4j]
// and sums[4j + 1], and 8 further, in sums[4j + 2] and sums[4j + 3], of columns 8j + 2(t % 4) and
// the next.
inline constexpr int kProductM = 64, kProductN = 256, kProductK = 16;
#define SXT_SUMS_8(i)                                                                        \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), \
      "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define SXT_SUMS_32(i) SXT_SUMS_8(i), SXT_SUMS_8(i + 8), SXT_SUMS_8(i + 16), SXT_SUMS_8(i + 24)
#define SXT_MULTIPLY_ADD(TYPE)                                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE                     \
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "       \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "    \
               "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "    \
               "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "    \
               "%61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, "    \
               "%76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, "    \
               "%91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, "    \
               "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, " \
               "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "                  \
               "%128, %129, 1, 1, 1, %130, %131;"                                               \
               : SXT_SUMS_32(0), SXT_SUMS_32(32), SXT_SUMS_32(64), SXT_SUMS_32(96)              \
               : "l"(a), "l"(b), "n"(kA == Along::Side), "n"(kB == Along::Side))
template <class T, Along kA, Along kB>
__device__ inline void multiply_add(float (&sums)[128], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, bf16>) {
    SXT_MULTIPLY_ADD("bf16");
  } else {
    static_assert(std::is_same_v<T, f16>);
    SXT_MULTIPLY_ADD("f16");
  }
}
#undef SXT_SUMS_8
#undef SXT_SUMS_32
#undef SXT_MULTIPLY_ADD

}  // namespace sextant::cuda::hopper
