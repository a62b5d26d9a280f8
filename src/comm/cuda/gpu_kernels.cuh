#pragma once
// Kernels of collectives between ranks that share a GPU. They move 16 bytes per access where all
// addresses allow it and single elements otherwise, and treat the rest of a range that is no
// multiple of 16 bytes element by element.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>

#include "comm/gpu_work.h"

namespace sextant {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 1024;  // per range: enough to fill a GPU, few enough to be cheap
constexpr int kVectorBytes = 16;

template <class T>
struct Lane {  // f64 and f32
  using Wide = T;
  static __device__ Wide widen(T x) { return x; }
  static __device__ T narrow(Wide x) { return x; }
  static __device__ Wide add(Wide a, Wide b) { return a + b; }
};
template <class T, class Unsigned>
struct IntegerLane {  // adds as unsigned, where overflow wraps around
  using Wide = T;
  static __device__ Wide widen(T x) { return x; }
  static __device__ T narrow(Wide x) { return x; }
  static __device__ Wide add(Wide a, Wide b) {
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  }
};
template <>
struct Lane<int32_t> : IntegerLane<int32_t, uint32_t> {};
template <>
struct Lane<int64_t> : IntegerLane<int64_t, uint64_t> {};
template <>
struct Lane<bf16> {
  using Wide = float;
  static __device__ float widen(bf16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }
  static __device__ bf16 narrow(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
  static __device__ float add(float a, float b) { return a + b; }
};
template <>
struct Lane<f16> {
  using Wide = float;
  static __device__ float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
  static __device__ f16 narrow(float x) { return {__half_as_ushort(__float2half_rn(x))}; }
  static __device__ float add(float a, float b) { return a + b; }
};

// A NaN on either side is kept.
template <ReduceOp kOp, class L>
__device__ typename L::Wide combine(typename L::Wide a, typename L::Wide b) {
  if constexpr (kOp == ReduceOp::Sum) return L::add(a, b);
  if constexpr (kOp == ReduceOp::Max) return (a > b || a != a) ? a : b;
  if constexpr (kOp == ReduceOp::Min) return (a < b || a != a) ? a : b;
}

// Elements [begin, end) of every rank's input, reduced into out[0 ... end - begin - 1].
struct ReducePart {
  int64_t begin, end;
  std::byte* out;
};
struct ReduceTask {
  const std::byte* in[kMostGpuRanks];
  ReducePart parts[kMostGpuRanks];
  int ranks;
  Into into;
};
// One range, of more inputs.
struct FoldTask {
  const std::byte* in[kMostFolded];
  ReducePart part;
  int ranks;
  Into into;
};
// All elements of every rank's input, reduced into every output.
struct ReduceToAllTask {
  const std::byte* in[kMostGpuRanks];
  std::byte* out[kMostGpuRanks];
  int ranks;
  int64_t count;
};
// A range of bytes that is copied to the same place, `begin` bytes into each of the outputs.
struct SpreadPart {
  const std::byte* in;
  int64_t begin, bytes;
};
struct SpreadTask {
  SpreadPart parts[kMostGpuRanks];
  std::byte* out[kMostGpuRanks];
  int ranks;
};
struct CopyPart {
  std::byte* out;
  const std::byte* in;
  int64_t bytes;
};
struct CopyTask {
  CopyPart parts[kMostGpuRanks];
};

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

// The reduction of kCount elements at `at` of every input.
template <class T, ReduceOp kOp, int kCount>
__device__ void reduce_pack(typename Lane<T>::Wide* sum, const std::byte* const* in, int ranks,
                            int64_t at) {
  using L = Lane<T>;
  const auto load = [&](int rank) {
    return *reinterpret_cast<const Pack<T, kCount>*>(reinterpret_cast<const T*>(in[rank]) + at);
  };
  const Pack<T, kCount> first = load(0);
  for (int i = 0; i < kCount; ++i) sum[i] = L::widen(first.values[i]);
  for (int rank = 1; rank < ranks; ++rank) {
    const Pack<T, kCount> next = load(rank);
    for (int i = 0; i < kCount; ++i) sum[i] = combine<kOp, L>(sum[i], L::widen(next.values[i]));
  }
}

template <class T, ReduceOp kOp, int kCount, class Task>
__device__ void reduce_one(const Task& task, T* out, int64_t begin, int64_t at) {
  using L = Lane<T>;
  typename L::Wide sum[kCount];
  reduce_pack<T, kOp, kCount>(sum, task.in, task.ranks, begin + at);
  auto* to = reinterpret_cast<Pack<T, kCount>*>(out + at);
  Pack<T, kCount> result;
  if (task.into == Into::Add) {
    const Pack<T, kCount> old = *to;
    for (int i = 0; i < kCount; ++i) sum[i] = L::add(L::widen(old.values[i]), sum[i]);
  }
  for (int i = 0; i < kCount; ++i) result.values[i] = L::narrow(sum[i]);
  *to = result;
}

// f<kCount>(element) over all packs of a range of `count` elements, then f<1> over the rest.
template <int kCount, class F>
__device__ void for_packs(int64_t count, F&& f) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t packs = count / kCount;
  for (int64_t pack = first; pack < packs; pack += stride)
    f.template operator()<kCount>(pack * kCount);
  for (int64_t at = packs * kCount + first; at < count; at += stride) f.template operator()<1>(at);
}

template <class T, ReduceOp kOp, class Task>
struct ReduceAt {
  const Task& task;
  const ReducePart& part;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    reduce_one<T, kOp, kSize>(task, reinterpret_cast<T*>(part.out), part.begin, at);
  }
};

template <class T, ReduceOp kOp, int kCount>
__global__ void reduce_parts(const __grid_constant__ ReduceTask task) {
  const ReducePart& part = task.parts[blockIdx.y];
  for_packs<kCount>(part.end - part.begin, ReduceAt<T, kOp, ReduceTask>{task, part});
}

template <class T, ReduceOp kOp, int kCount>
__global__ void fold_many(const __grid_constant__ FoldTask task) {
  for_packs<kCount>(task.part.end, ReduceAt<T, kOp, FoldTask>{task, task.part});
}

template <class T, ReduceOp kOp>
struct ReduceToAllAt {
  const ReduceToAllTask& task;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    using L = Lane<T>;
    typename L::Wide sum[kSize];
    reduce_pack<T, kOp, kSize>(sum, task.in, task.ranks, at);
    Pack<T, kSize> result;
    for (int i = 0; i < kSize; ++i) result.values[i] = L::narrow(sum[i]);
    for (int rank = 0; rank < task.ranks; ++rank)
      *reinterpret_cast<Pack<T, kSize>*>(reinterpret_cast<T*>(task.out[rank]) + at) = result;
  }
};

template <class T, ReduceOp kOp, int kCount>
__global__ void reduce_to_all(const __grid_constant__ ReduceToAllTask task) {
  for_packs<kCount>(task.count, ReduceToAllAt<T, kOp>{task});
}

// Copies in units of bytes, so that one kernel serves all types; elements are at least 1 byte.
template <int kSize>
__device__ Pack<uint8_t, kSize> load_bytes(const std::byte* from) {
  return *reinterpret_cast<const Pack<uint8_t, kSize>*>(from);
}

struct SpreadAt {
  const SpreadTask& task;
  const SpreadPart& part;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    const std::byte* from = part.in + at;
    const Pack<uint8_t, kSize> bytes = load_bytes<kSize>(from);
    for (int rank = 0; rank < task.ranks; ++rank) {
      std::byte* to = task.out[rank] + part.begin + at;
      if (to != from) *reinterpret_cast<Pack<uint8_t, kSize>*>(to) = bytes;
    }
  }
};

template <int kUnit>
__global__ void spread_parts(const __grid_constant__ SpreadTask task) {
  const SpreadPart& part = task.parts[blockIdx.y];
  for_packs<kUnit>(part.bytes, SpreadAt{task, part});
}

struct CopyAt {
  const CopyPart& part;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    *reinterpret_cast<Pack<uint8_t, kSize>*>(part.out + at) = load_bytes<kSize>(part.in + at);
  }
};

template <int kUnit>
__global__ void copy_parts(const __grid_constant__ CopyTask task) {
  for_packs<kUnit>(task.parts[blockIdx.y].bytes, CopyAt{task.parts[blockIdx.y]});
}

// By the only thread that writes it.
__global__ void count_up(int64_t* counter) {
  auto* place = static_cast<volatile int64_t*>(counter);
  *place = *place + 1;
  __threadfence_system();
}

}  // namespace
}  // namespace sextant
