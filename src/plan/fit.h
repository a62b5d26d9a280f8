#pragma once
#include <functional>
#include <span>
#include <vector>

#include "plan/case.h"
#include "plan/constants.h"

namespace sextant {

// A run whose step time is known.
struct Observation {
  Case asked;
  double seconds = 0;
  double weight = 1;
};

// Constants that make the weighted sum of |log(predicted / measured)| small, each within its range:
// Gauss-Newton with damping on weights that turn squares into absolute values. Only constants that
// the time depends on move. Deterministic.
Constants fit_constants(std::span<const Observation> runs, const Constants& start, int rounds);

}  // namespace sextant
