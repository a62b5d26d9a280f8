#pragma once
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// What the operations of one stage take and hold, in units of the caller: seconds and bytes, or
// ones.
struct StageCost {
  double forward = 1;  // time of F
  double input = 1;    // of I
  double weight = 1;   // of W; a whole B takes input + weight
  double held = 1;     // memory from the start of F on
  double kept = 0.5;   // of it, what I leaves for W; the rest is free after I, all after W or B
  friend bool operator==(const StageCost&, const StageCost&) = default;
};

// The most that each rank holds at once: it follows from the order alone. `costs`: one for all
// stages, or one per stage.
std::vector<double> peak_memory(const Schedule& schedule, std::span<const StageCost> costs);

}  // namespace sextant
