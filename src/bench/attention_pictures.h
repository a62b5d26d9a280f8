#pragma once
#include <cstdint>
#include <vector>

#include "bench/picture.h"

namespace sextant {

// A causal sequence of 16 tokens on 4 context parallel ranks, in contiguous parts and zigzag: which
// rank computes which (query, key) pair, and how many each.
std::vector<Picture> draw_attention();

enum class SequenceCut { Contiguous, Zigzag };
// Pairs that each rank computes, counted one by one.
std::vector<int64_t> pairs_of_ranks(SequenceCut cut, int ranks, int64_t seq);

}  // namespace sextant
