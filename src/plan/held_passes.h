#pragma once
#include <array>
#include <vector>

#include "plan/case.h"
#include "schedule/schedule.h"

namespace sextant {

// Micro-batches whose tensors a pipeline rank holds at one time.
struct HeldPasses {
  double forward = 0;  // between forward and backward, in units of all layers of the rank
  double halves = 0;   // between the two halves of a split backward, in the same unit
  double heads = 0;    // of both, those on the last stage
};
// Of the first, of a middle and of the last rank: its fullest times, none of which has as much of
// everything as another, and the largest share of its stages that await weight gradients at once.
struct RankHeld {
  std::vector<HeldPasses> most;
  double waiting = 0;
};
using ScheduleHeld = std::array<RankHeld, 3>;

ScheduleHeld held_passes(const Schedule& schedule);
// Of the schedule of a layout, with passes of equal length. Schedules whose ranks hold no more
// with more micro-batches are counted with few.
ScheduleHeld held_passes(const Layout& layout, int64_t micros);
// So many micro-batches give the same as `micros`.
int64_t telling_micros(const Layout& layout, int64_t micros);

bool splits_backward(ScheduleKind kind);

}  // namespace sextant
