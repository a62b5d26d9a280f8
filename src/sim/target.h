#pragma once
#include <functional>
#include <optional>

#include "schedule/schedule.h"
#include "sim/simulate.h"

namespace sextant {

// The schedule for this many micros, or nullopt if there is none.
using MakeSchedule = std::function<std::optional<Schedule>(int micros)>;

struct MicrosForBubble {
  int micros = 0;
  double bubble_fraction = 0;
};

// The smallest number of micros, at most `most`, whose simulated bubble_fraction is at most
// `target`. Bisection: assumes that more micros never make the bubble larger. Up to `step`
// consecutive numbers may have no schedule (some need a multiple of something). Error(Config) with
// the bubble reached when `most` is not enough.
MicrosForBubble least_micros(double target, int most, int step, const Costs& costs,
                             const MakeSchedule& make);

}  // namespace sextant
