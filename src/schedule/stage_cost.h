#pragma once
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// Time and memory of a stage's actions, in the caller's units: seconds and bytes, or 1.
struct StageCost {
  double forward = 1;  // time of F
  double input = 1;    // of I
  double weight = 1;   // of W; a whole B takes input + weight
  double held = 1;     // activation memory, allocated when F starts
  double kept = 0.5;   // part of `held` that I leaves for W; I frees the rest, W or B frees all
  friend bool operator==(const StageCost&, const StageCost&) = default;
};

// Peak memory of each rank, which depends on the order alone. `costs`: one for all stages, or one
// per stage.
std::vector<double> peak_memory(const Schedule& schedule, std::span<const StageCost> costs);

}  // namespace sextant
