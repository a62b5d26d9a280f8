#pragma once
#include <cstddef>
#include <cstdint>

namespace sextant {

// Rounds of independent multiply-adds in registers, of 256 and of 512 bits, and of pairs of bf16;
// the result only keeps the compiler from dropping them.
inline constexpr int kChains = 10;  // enough to fill two units of latency four or five
inline constexpr int64_t kFlopsPerRound256 = kChains * 8 * 2;
inline constexpr int64_t kFlopsPerRound512 = kChains * 16 * 2;
inline constexpr int64_t kFlopsPerRoundBf16 = kChains * 32 * 2;
float fma_chains_256(int64_t rounds);
float fma_chains_512(int64_t rounds);   // needs has_avx512()
float fma_chains_bf16(int64_t rounds);  // needs has_avx512_bf16()

// a * b + c in each lane of a vector of floats.
struct FusedMultiplyAdd {
  template <class Vector>
  [[gnu::always_inline]] Vector operator()(Vector a, Vector b, Vector c) const {
    for (size_t i = 0; i < sizeof(Vector) / sizeof(float); ++i)
      c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
  }
};

// The starts differ, or a compiler would make one chain of them.
template <class Vector, class MultiplyAdd = FusedMultiplyAdd>
float run_fma_chains(int64_t rounds, MultiplyAdd multiply_add = {}) {
  const Vector a = Vector{} + 0.999f, b = Vector{} + 0.001f;
  Vector c0 = b, c1 = 2 * b, c2 = 3 * b, c3 = 4 * b, c4 = 5 * b, c5 = 6 * b, c6 = 7 * b, c7 = 8 * b,
         c8 = 9 * b, c9 = 10 * b;
  for (int64_t i = 0; i < rounds; ++i) {
    c0 = multiply_add(c0, a, b);
    c1 = multiply_add(c1, a, b);
    c2 = multiply_add(c2, a, b);
    c3 = multiply_add(c3, a, b);
    c4 = multiply_add(c4, a, b);
    c5 = multiply_add(c5, a, b);
    c6 = multiply_add(c6, a, b);
    c7 = multiply_add(c7, a, b);
    c8 = multiply_add(c8, a, b);
    c9 = multiply_add(c9, a, b);
  }
  const Vector sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9;
  return sum[0];
}

}  // namespace sextant
