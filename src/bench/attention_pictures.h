#pragma once
#include <cstdint>
#include <vector>

#include "bench/picture.h"

namespace sextant {

// A causal sequence of 16 tokens on 4 ranks, cut in runs and cut zigzag as context parallel ranks
// have it: who multiplies which pair of a query and a key, and how many each.
std::vector<Picture> draw_attention();

enum class SequenceCut { Contiguous, Zigzag };
// Pairs that each rank multiplies, counted one by one.
std::vector<int64_t> pairs_of_ranks(SequenceCut cut, int ranks, int64_t seq);

}  // namespace sextant
