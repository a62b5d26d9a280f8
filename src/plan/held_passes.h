#pragma once
#include <array>
#include <vector>

#include "plan/case.h"
#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

// Micro-batches whose tensors a pipeline rank holds at one time.
struct HeldPasses {
  double forward = 0;  // between forward and backward, in units of all layers of the rank
  double halves = 0;   // between the two halves of a split backward, in the same unit
  double heads = 0;    // of both, those on the last stage
  double waiting = 0;  // share of the rank's stages that await weight gradients
};
// Of the first, of a middle and of the last rank: its fullest times, none of which has as much of
// everything as another.
using ScheduleHeld = std::array<std::vector<HeldPasses>, 3>;

ScheduleHeld held_passes(const Schedule& schedule);
// Of the schedule of a layout. Schedules whose ranks hold no more with more micro-batches are
// counted with few. `costs` of all stages, or of each, are what searched schedules follow.
ScheduleHeld held_passes(const Layout& layout, int64_t micros,
                         const std::vector<StageCost>& costs = {StageCost{}});
// The relative costs of a case's stages, where its schedule is searched for them; else equal ones.
std::vector<StageCost> relative_costs(const Case& asked);
// So many micro-batches give the same as `micros`.
int64_t telling_micros(const Layout& layout, int64_t micros);

bool splits_backward(ScheduleKind kind);

}  // namespace sextant
