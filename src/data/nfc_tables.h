#pragma once
#include <cstdint>
#include <vector>

namespace sextant {

// Canonical combining class of a range of characters; all others have 0.
struct CombiningClass {
  uint32_t first, last;
  uint8_t value;
};
// Canonical decomposition into one or two characters (second = 0: one).
struct Decomposition {
  uint32_t whole, first, second;
};

// Each in ascending order of its first field. Hangul syllables are computed, not listed.
const std::vector<CombiningClass>& combining_classes();
const std::vector<Decomposition>& composing_pairs();         // the pair composes again
const std::vector<Decomposition>& one_way_decompositions();  // it does not

}  // namespace sextant
