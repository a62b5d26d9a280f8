#include "schedule/stage_cost.h"

#include <algorithm>

namespace sextant {

std::vector<double> peak_memory(const Schedule& schedule, std::span<const StageCost> costs) {
  std::vector<double> peaks;
  for (const std::vector<Action>& todo : schedule.ranks) {
    double held = 0, peak = 0;
    for (const Action& action : todo) {
      const StageCost& cost = costs[costs.size() == 1 ? 0 : action.stage];
      switch (action.kind) {
        case Kind::F:
          held += cost.activation_memory;
          break;
        case Kind::I:
          held -= cost.activation_memory - cost.memory_for_weight_grad;
          break;
        case Kind::W:
          held -= cost.memory_for_weight_grad;
          break;
        case Kind::B:
          held -= cost.activation_memory;
          break;
        default:
          break;
      }
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace sextant
