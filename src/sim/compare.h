#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/measured.h"
#include "sim/simulate.h"
#include "sim/timeline.h"

namespace sextant {

// The first action at which a rank deviates from its schedule.
struct OrderDifference {
  int rank = 0;
  size_t place = 0;  // index among its actions
  Action measured, listed;
};

// An action as measured and as simulated; times count from the first start of the step.
struct ActionDifference {
  int rank = 0;
  Action action;
  double measured = 0, simulated = 0;  // start times
  // How much longer than simulated the action itself took: its duration, plus the wait after its
  // rank was free and its inputs were made. Earlier delays do not count.
  double longer = 0;

  double late() const { return measured - simulated; }
};

// Medians over the steps of a run.
struct StepFigures {
  double makespan = 0;
  std::vector<double> idle;    // per rank
  double bubble_fraction = 0;  // of Comparison::bubble_rank
  double utilisation = 0;
};

// A run, and the simulation of its schedule with the measured times of its actions.
struct Comparison {
  int steps = 0;    // in the trace
  int skipped = 0;  // of them, at the start: first touch of memory
  int shown = 0;    // step shown as `measured_step`, from 0: the one with the median makespan
  MeasuredTimes times;
  Timeline measured_step, simulated_step;
  StepFigures measured, simulated;
  // The rank whose idle time is the bubble, measured and simulated: the one that ends last in the
  // simulation, or the most idle one within 2 % of it, since close ranks swap from step to step.
  int bubble_rank = 0;
  std::optional<OrderDifference> order;
  std::vector<ActionDifference> differences;  // all actions, largest `longer` first
};

// Times are in the unit of `steps`. The first step is skipped when there are others.
Comparison compare(const Schedule& schedule, std::span<const Timeline> steps);

// Both timelines in one SVG, the measured one above, on a common time axis; in milliseconds when
// the timelines are in seconds. Error(Usage) when there are too many actions to draw.
std::string compare_svg(const Schedule& schedule, const Comparison& comparison);

}  // namespace sextant
