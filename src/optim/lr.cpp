#include "optim/lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sextant {

double learning_rate(const OptimConfig& optim, int64_t step, int64_t steps) {
  if (step < optim.warmup)
    return optim.lr * static_cast<double>(step + 1) / static_cast<double>(optim.warmup);
  const auto first = static_cast<double>(
      optim.schedule == LrSchedule::Wsd
          ? std::max<int64_t>(optim.warmup,
                              steps - std::llround(optim.wsd_decay * static_cast<double>(steps)))
          : optim.warmup);
  const auto last = static_cast<double>(steps - 1);
  // Progress of the decay: 0 at its first step, 1 at the last step of the run.
  const double way =
      last <= first ? 1
                    : std::clamp((static_cast<double>(step) - first) / (last - first), 0.0, 1.0);
  const double span = optim.lr - optim.min_lr;
  switch (optim.schedule) {
    case LrSchedule::Constant:
      return optim.lr;
    case LrSchedule::Cosine:
      return optim.min_lr + span * 0.5 * (1 + std::cos(std::numbers::pi * way));
    case LrSchedule::Linear:
    case LrSchedule::Wsd:
      break;
  }
  return static_cast<double>(step) < first ? optim.lr : optim.min_lr + span * (1 - way);
}

}  // namespace sextant
