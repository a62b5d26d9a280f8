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

// What each rank did and when, by ascending start, simulated or measured. Compute actions only. The
// two actions of an overlapped block share start and end.
struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
};

// Figures of a timeline. Idle time counts within a rank's own span, from its first start to its
// last end; waits before and after that are only in the makespan.
struct Figures {
  double makespan = 0;             // from the first start to the last end over all ranks
  std::vector<double> idle, work;  // per rank
  // Longest span minus most work: the bubble that remains when the optimizer step needs no barrier.
  double span_bubble = 0;
  // idle / makespan and idle / work of the rank that ends last (of several, the most idle).
  int last = 0;
  double bubble_fraction = 0, bubble_overhead = 0;
  double utilisation = 0;  // work of all ranks / (ranks * makespan)
};
// Ranks end together when their ends differ by at most `together`, a fraction of the makespan.
Figures measure(const Timeline& timeline, double together = 0);

// Counts in-flight micro-batches: one from the start of F to the end of B or W.
inline constexpr StageCost kCountHeld{.activation_memory = 1, .memory_for_weight_grad = 1};

struct MemoryPoint {
  double time = 0;
  double held = 0;  // from here until the next point
};

// A rank's memory over time: `held` of a stage's cost from the start of F, `kept` from the end of I
// to the end of W. `costs`: one for all stages, or one per stage. Its maximum is peak_memory of
// schedule/stage_cost.h.
std::vector<MemoryPoint> memory_curve(const std::vector<TimedAction>& rank,
                                      std::span<const StageCost> costs);

}  // namespace sextant
