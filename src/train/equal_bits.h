#pragma once
#include <set>
#include <string>

#include "config/config.h"

namespace sextant {

// What two layouts compute with the same bits from the same weights, because they add the same
// terms in the same order. docs/verify.md lists the rules. A promise, not a forecast: what is not
// promised may be equal too.
struct EqualBits {
  bool loss = false;
  std::set<std::string> gradients;  // parameter names
  // All gradients: then updates and all later steps are equal too, while the norms are.
  bool steps = false;
};

// Both layouts take the same micro-batches, divided in order over their data parallel ranks.
EqualBits equal_bits(const Config& a, const Config& b);

}  // namespace sextant
