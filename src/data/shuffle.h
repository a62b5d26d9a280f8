#pragma once
#include <cstdint>

namespace sextant {

// Where element `index` of [0, count) goes in the order named by (seed, epoch): a permutation of
// [0, count), computed from the index alone, so that nothing is stored and any place can be
// resumed.
int64_t shuffled(int64_t index, int64_t count, uint64_t seed, int64_t epoch);

}  // namespace sextant
