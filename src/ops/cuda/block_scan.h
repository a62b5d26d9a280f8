#pragma once
// Sums of all values before each, by one block of threads.
#include "ops/cuda/kernel.h"

namespace sextant::cuda {

inline constexpr int kScan = 1024;  // threads of the block

// store(i, value(0) + ... + value(i - 1), value(i)) for i < count, by one block of kScan threads.
// Each thread has some neighbours.
template <class Value, class Store>
__device__ void scan(int64_t count, const Value& value, const Store& store) {
  const int64_t each = (count + kScan - 1) / kScan;
  const int64_t begin = min(count, int64_t{threadIdx.x} * each), end = min(count, begin + each);
  int64_t own = 0;
  for (int64_t i = begin; i < end; ++i) own += value(i);
  __shared__ int64_t sums[kScan];
  sums[threadIdx.x] = own;
  for (unsigned offset = 1; offset < kScan; offset *= 2) {
    __syncthreads();
    const int64_t left = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
    __syncthreads();
    sums[threadIdx.x] += left;
  }
  int64_t before = sums[threadIdx.x] - own;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t next = value(i);
    store(i, before, next);
    before += next;
  }
}

// i32 arrays at the start of the shared scratch.
inline int32_t* whole_numbers(Stream& stream, const char* op, int64_t count) {
  const std::span<std::byte> scratch = stream.shared_scratch();
  SXT_CHECK(count * int64_t{sizeof(int32_t)} <= static_cast<int64_t>(scratch.size()), Usage, op,
            ": ", count, " whole numbers do not fit into the ", scratch.size(),
            " bytes of scratch");
  return reinterpret_cast<int32_t*>(scratch.data());
}

}  // namespace sextant::cuda
