#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/measured.h"
#include "sim/simulate.h"
#include "sim/timeline.h"

namespace sextant {

// The first place where a rank did something else than its list says.
struct OrderDifference {
  int rank = 0;
  size_t place = 0;  // among its actions
  Action measured, listed;
};

// An action as it ran and as it was simulated, both from the first start of their step.
struct ActionDifference {
  int rank = 0;
  Action action;
  double measured = 0, simulated = 0;  // starts
  // How much longer than simulated it took itself: its duration, and the wait after its rank was
  // free and its inputs were made. What was late before it does not count.
  double longer = 0;

  double late() const { return measured - simulated; }
};

// What the steps of a run amount to: medians over them.
struct StepFigures {
  double makespan = 0;
  std::vector<double> idle;    // of each rank
  double bubble_fraction = 0;  // of Comparison::bubble_rank
  double utilisation = 0;
};

// A run and the simulation of the same schedule with the times that its operations took.
struct Comparison {
  int steps = 0;    // in the trace
  int skipped = 0;  // of them, at the begin: memory is touched for the first time
  int shown = 0;    // the step of `measured_step`, from 0: the one with the median makespan
  MeasuredTimes times;
  Timeline measured_step, simulated_step;
  StepFigures measured, simulated;
  // Whose idle time is the bubble, on both sides: the rank that ends last in the simulation; of
  // those within 2 % of it the idlest. Ends that near each other change places from step to step.
  int bubble_rank = 0;
  std::optional<OrderDifference> order;
  std::vector<ActionDifference> differences;  // of all actions, by falling size of `longer`
};

// All times in the unit of `steps`. The first step is skipped when there are others.
Comparison compare(const Schedule& schedule, std::span<const Timeline> steps);

// Both timelines in one drawing, the measured one above, on the same axis of time; in milliseconds
// when the timelines are in seconds. Error(Usage) when there are more actions than a picture shows.
std::string compare_svg(const Schedule& schedule, const Comparison& comparison);

}  // namespace sextant
