#pragma once
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// Time and memory of a stage's actions, in the caller's units: seconds and bytes, or 1.
struct StageCost {
  double forward_time = 1;
  double input_grad_time = 1;
  double weight_grad_time = 1;
  double activation_memory = 1;  // allocated when F starts
  // What I leaves of it for W to free; B frees everything.
  double memory_for_weight_grad = 0.5;
  friend bool operator==(const StageCost&, const StageCost&) = default;
};

// Peak memory of each rank, which depends on the order alone. `costs`: one for all stages, or one
// per stage.
std::vector<double> peak_memory(const Schedule& schedule, std::span<const StageCost> costs);

}  // namespace sextant
