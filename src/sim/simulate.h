#pragma once
#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"
#include "sim/timeline.h"

namespace sextant {

struct Costs {
  std::vector<StageCost> stages = {StageCost{}};  // one for all, or one for each
  double latency = 0;  // from the end of a producer until its output is on another rank
  double wire = 0;  // how long one message fills its link (bytes / bandwidth), before the latency
  // The time of a joined block, which is then atomic: it needs the inputs of both halves to start,
  // and sends the outputs of both when it ends. Without it the halves run one after the other.
  std::optional<double> overlap = {};
};

// When each action runs, if every rank does its list in order and starts each action as soon as its
// inputs are there:
//   F(s) needs F(s-1), I(s) and B(s) need I or B of s+1, W(s) needs I(s)
// B takes the times of I and W together, and its output leaves at the end of both. Messages between
// two ranks share one link in each direction, one at a time; they cost the ranks nothing. Other
// actions than compute take no time.
// O(actions). Throws Error(Config) for costs that cannot be, for an action on a rank that does not
// hold its stage, and when the ranks wait for each other: names each rank and what it waits for.
Timeline simulate(const Schedule& schedule, const Costs& costs);

}  // namespace sextant
