#pragma once
#include <span>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

// What each rank did and when, by rising start: of a simulation, or as measured. Only compute
// actions. The two actions of a joined block that really overlapped share start and end.
struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
};

// What a timeline amounts to. Idle time counts inside a rank's own span, from its first start to
// its last end; the ranks' waiting for the first to begin and the last to end is in the makespan.
struct Figures {
  double makespan = 0;             // from the first start to the last end of all ranks
  std::vector<double> idle, work;  // of each rank
  // The longest span less the most work: what an optimizer step that needs no barrier leaves of
  // the bubble.
  double span_bubble = 0;
  // idle / makespan and idle / work of the rank that ends last (of several, the idlest).
  int last = 0;
  double bubble_fraction = 0, bubble_overhead = 0;
  double utilisation = 0;  // work of all ranks / (ranks * makespan)
};
// Ranks end together when they are no further apart than `together`, a share of the makespan.
Figures measure(const Timeline& timeline, double together = 0);

// Counts operations held: one from the start of F to the end of B or W.
inline constexpr StageCost kCountHeld{.held = 1, .kept = 1};

struct MemoryPoint {
  double time = 0;
  double held = 0;  // from here until the next point
};

// What a rank holds over time: `held` of a stage's cost from the start of F, `kept` of it from the
// end of I until the end of W. `costs`: one for all stages, or one for each. Its highest point is
// peak_memory of schedule/stage_cost.h.
std::vector<MemoryPoint> memory_curve(const std::vector<TimedAction>& rank,
                                      std::span<const StageCost> costs);

}  // namespace sextant
