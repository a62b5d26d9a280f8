#pragma once
#include <span>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

// Throws Error(Config), naming rank and action, unless the schedule is complete and can run:
//   every (stage, micro) has one F and either one B or one I and one W, on the rank that holds it;
//   with sends and receives, exactly one of each per output that another rank needs, and no other;
//   a joined action is an F directly followed by a backward of another micro;
//   no deadlock when run in order with non-blocking sends;
//   on every channel (from rank, to rank, forward or backward) outputs are consumed in the order in
//   which they are produced, and received in the order in which they are sent.
void validate(const Schedule& schedule);

// Throws Error(Config), naming the rank, when its peak_memory exceeds `limit`.
void check_memory(const Schedule& schedule, std::span<const StageCost> costs, double limit);

}  // namespace sextant
