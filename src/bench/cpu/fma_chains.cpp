#include "bench/cpu/fma_chains.h"

namespace sextant {

float fma_chains_256(int64_t rounds) {
  using Vector = float __attribute__((vector_size(32)));
  return run_fma_chains<Vector>(rounds);
}

}  // namespace sextant
