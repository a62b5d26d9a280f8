#include "bench/cpu/fma_chains.h"
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace sextant {

#if defined(__AVX512BF16__)

float fma_chains_bf16(int64_t rounds) {
  using Vector = float __attribute__((vector_size(64)));
  return run_fma_chains<Vector>(rounds, [](Vector c, Vector a, Vector b) {
    return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  });
}

#else

float fma_chains_bf16(int64_t) {
  return 0;
}

#endif

}  // namespace sextant
