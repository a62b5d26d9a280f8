#pragma once
#include <cstdlib>

namespace sextant {

// How many random cases a test draws: few in every run, many in scripts/nightly.sh (SXT_LONG=1).
inline int random_cases(int few, int many) {
  return std::getenv("SXT_LONG") ? many : few;
}

}  // namespace sextant
