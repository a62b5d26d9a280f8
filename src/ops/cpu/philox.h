#pragma once
// Philox4x32-10 of base/random.h, four counters at a time: they differ in their second word, which
// counts up. A lane of 64 bits holds one word in its lower half; what lies in the upper half is
// ignored by the product and never moves down.
#include "base/random.h"
#include "ops/cpu/vector_math.h"

namespace sextant::cpu {

using u64x4 = uint64_t __attribute__((vector_size(32)));

// Lower halves times a constant below 2^32.
SXT_INLINE u64x4 multiply_words(u64x4 words, uint64_t factor) {
#if defined(__AVX2__)
  return (u64x4)_mm256_mul_epu32((__m256i)words, _mm256_set1_epi64x(static_cast<int64_t>(factor)));
#else
  return (words & 0xffffffffu) * factor;
#endif
}

inline constexpr int64_t kPhiloxWords = 16;  // of one call below

// out: words 0 ... 3 of counter (first, second, third, 0), then those of (first, second + 1, ...),
// up to second + 3.
SXT_INLINE void philox_four(uint32_t* out, uint32_t first, uint32_t second, uint32_t third,
                            PhiloxKey key) {
  u64x4 c0 = u64x4{} + first, c2 = u64x4{} + third, c3{};
  u64x4 c1 = u64x4{second, second + uint64_t{1}, second + uint64_t{2}, second + uint64_t{3}};
  uint32_t k0 = key[0], k1 = key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const u64x4 p0 = multiply_words(c0, 0xD2511F53), p1 = multiply_words(c2, 0xCD9E8D57);
    c0 = (p1 >> 32) ^ c1 ^ uint64_t { k0 };
    c2 = (p0 >> 32) ^ c3 ^ uint64_t { k1 };
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  const u64x4 left = (c0 & 0xffffffffu) | (c1 << 32), right = (c2 & 0xffffffffu) | (c3 << 32);
  const u64x4 low = __builtin_shufflevector(left, right, 0, 4, 1, 5);
  const u64x4 high = __builtin_shufflevector(left, right, 2, 6, 3, 7);
  std::memcpy(out, &low, sizeof(low));
  std::memcpy(out + 8, &high, sizeof(high));
}

}  // namespace sextant::cpu
