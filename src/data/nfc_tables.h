#pragma once
#include <cstdint>
#include <vector>

namespace sextant {

// Canonical combining class of a range of characters; 0 for all others.
struct CombiningClass {
  uint32_t first, last;
  uint8_t value;
};
// Canonical decomposition into one or two characters (second = 0: one).
struct Decomposition {
  uint32_t whole, first, second;
};

// Sorted by first field. Hangul syllables are computed, not listed.
const std::vector<CombiningClass>& combining_classes();
const std::vector<Decomposition>& composing_pairs();         // the pair composes again
const std::vector<Decomposition>& one_way_decompositions();  // the pair does not

}  // namespace sextant
