#pragma once
#include <functional>
#include <optional>

#include "schedule/schedule.h"
#include "sim/simulate.h"

namespace sextant {

// The schedule for this many micros, or nothing where there is none.
using MakeSchedule = std::function<std::optional<Schedule>(int micros)>;

struct MicrosForBubble {
  int micros = 0;
  double bubble_fraction = 0;
};

// The least number of micros, at most `most`, whose simulated bubble_fraction is at most `target`,
// found by doubling and halving: more micros are taken never to make the bubble larger.
// Error(Config) with what was reached when even `most` is not enough. A kind of schedule may want a
// multiple of something, so up to `step` numbers in a row may have none.
MicrosForBubble least_micros(double target, int most, int step, const Costs& costs,
                             const MakeSchedule& make);

}  // namespace sextant
