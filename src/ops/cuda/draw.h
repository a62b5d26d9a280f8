#pragma once
// Random words of elements, from Philox of base/random.h.
#include "base/random.h"
#include "ops/cuda/kernel.h"

namespace sextant::cuda {

// words[slot] without an index into an array, which would move it to memory.
__device__ inline uint32_t word_of(const std::array<uint32_t, 4>& words, uint64_t slot) {
  const uint32_t low = slot % 2 == 0 ? words[0] : words[1];
  const uint32_t high = slot % 2 == 0 ? words[2] : words[3];
  return slot < 2 ? low : high;
}

// The words of N elements from `element` on, of which each four have one counter: word element % 4
// of {element / 4, element / 4 >> 32, third, fourth}. N is 1, or a multiple of 4 as `element` is.
template <int N>
__device__ inline void draw(uint32_t (&words)[N], PhiloxKey key, uint64_t element, uint32_t third,
                            uint32_t fourth) {
  static_assert(N == 1 || N % 4 == 0);
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const uint64_t block = (element + i) / 4;
    const std::array<uint32_t, 4> four = philox(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), third, fourth}, key);
    if constexpr (N == 1) {
      words[0] = word_of(four, element % 4);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) words[i + j] = four[j];
    }
  }
}

}  // namespace sextant::cuda
