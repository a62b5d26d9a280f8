#pragma once
#include <cstdint>

namespace sextant {

// Element `index` of [0, count) in the order of (seed, epoch): a permutation of [0, count) computed
// from the index alone, so that nothing is stored and training can resume anywhere.
int64_t shuffled(int64_t index, int64_t count, uint64_t seed, int64_t epoch);

}  // namespace sextant
