#pragma once
#include <span>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

// Throws Error(Config) that names rank and action unless the schedule can run and does all there is
// to do:
//   every (stage, micro) has one F and either one B or one I and one W, on the rank that holds it;
//   if it has sends and receives at all, exactly one of each for each output that another rank
//   needs, and none other;
//   a joined action is an F with a backward of another micro right after it;
//   run in order, with sends that do not block, the ranks never wait for each other;
//   on every channel (from rank, to rank, forward or backward) the outputs are used in the order in
//   which they are made, and received in the order in which they are sent.
void validate(const Schedule& schedule);

// Throws Error(Config) that names the rank when one holds more than `limit` at once (see
// peak_memory).
void check_memory(const Schedule& schedule, std::span<const StageCost> costs, double limit);

}  // namespace sextant
