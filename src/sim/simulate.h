#pragma once
#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"
#include "sim/timeline.h"

namespace sextant {

struct Costs {
  std::vector<StageCost> stages = {StageCost{}};  // one for all, or one per stage
  double latency = 0;  // from the end of a producer until its output arrives on another rank
  double wire = 0;  // time that a message occupies its link (bytes / bandwidth), before the latency
  // Time of a joined block, which is then atomic: it starts when both actions have their inputs,
  // and sends both outputs at its end. Without it the two actions run one after the other.
  std::optional<double> overlap = {};
};

// When each action runs, if every rank runs its list in order and starts each action as soon as its
// inputs are there:
//   F(s) needs F(s-1), I(s) and B(s) need I or B of s+1, W(s) needs I(s)
// B takes the times of I and W together and sends its output at the end. Messages between two ranks
// share one link per direction, one at a time, and cost the ranks no time. Sends and receives in
// the list take no time. O(actions). Error(Config) for invalid costs, for an action on a rank that
// does not hold its stage, and on deadlock, naming each rank and what it waits for.
Timeline simulate(const Schedule& schedule, const Costs& costs);

}  // namespace sextant
