#include "sim/compare.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sim/step_walk.h"

namespace sextant {
namespace {

constexpr double kTogether = 0.02;  // of the makespan: ranks that end this close tie

std::optional<OrderDifference> find_order_difference(const Schedule& schedule,
                                                     std::span<const Timeline> steps) {
  for (const Timeline& step : steps)
    for (size_t rank = 0; rank < step.ranks.size(); ++rank) {
      size_t place = 0;
      for (const Action& listed : schedule.ranks[rank]) {
        if (!is_compute(listed.kind)) continue;
        const Action& did = step.ranks[rank][place].action;
        if (did != listed) return OrderDifference{static_cast<int>(rank), place, did, listed};
        ++place;
      }
    }
  return {};
}

double begin_of(const Timeline& step) {
  double begin = step.ranks[0][0].start;
  for (const std::vector<TimedAction>& rank : step.ranks) begin = std::min(begin, rank[0].start);
  return begin;
}

// Time from when an action's rank was free and its inputs were made until its end, by action_index.
std::vector<double> own_times(const Schedule& schedule, const Timeline& step) {
  const ActionTimes times(schedule, step);
  std::vector<double> own(action_count(schedule));
  for (const std::vector<TimedAction>& rank : step.ranks)
    for_each_block(times, rank, [&](size_t first, size_t last, double free, double input) {
      for (size_t i = first; i <= last; ++i)
        own[action_index(schedule, rank[i].action)] = rank[i].end - std::max(free, input);
    });
  return own;
}

std::vector<ActionDifference> find_differences(const Schedule& schedule,
                                               const Comparison& comparison) {
  const Timeline &measured = comparison.measured_step, &simulated = comparison.simulated_step;
  const ActionTimes expected(schedule, simulated);
  const std::vector<double> own_measured = own_times(schedule, measured),
                            own_simulated = own_times(schedule, simulated);
  const double begin = begin_of(measured), simulated_begin = begin_of(simulated);
  std::vector<ActionDifference> all;
  for (size_t rank = 0; rank < measured.ranks.size(); ++rank)
    for (const TimedAction& timed : measured.ranks[rank]) {
      const size_t index = action_index(schedule, timed.action);
      all.push_back({static_cast<int>(rank), timed.action, timed.start - begin,
                     expected.of(timed.action).start - simulated_begin,
                     own_measured[index] - own_simulated[index]});
    }
  std::ranges::stable_sort(all, std::greater(),
                           [](const ActionDifference& one) { return std::abs(one.longer); });
  return all;
}

StepFigures medians(std::span<const Figures> steps, int bubble_rank) {
  const auto median_of = [&](auto&& value) {
    std::vector<double> values;
    for (const Figures& step : steps) values.push_back(value(step));
    return median(std::move(values));
  };
  StepFigures out;
  out.makespan = median_of([](const Figures& step) { return step.makespan; });
  out.utilisation = median_of([](const Figures& step) { return step.utilisation; });
  const auto of = static_cast<size_t>(bubble_rank);
  out.bubble_fraction = median_of(
      [&](const Figures& step) { return step.makespan > 0 ? step.idle[of] / step.makespan : 0; });
  for (size_t rank = 0; rank < steps[0].idle.size(); ++rank)
    out.idle.push_back(median_of([&](const Figures& step) { return step.idle[rank]; }));
  return out;
}

// The step whose makespan is closest to the median.
size_t find_typical(std::span<const Figures> steps, double makespan) {
  const auto apart = [&](const Figures& step) { return std::abs(step.makespan - makespan); };
  return static_cast<size_t>(std::ranges::min_element(steps, {}, apart) - steps.begin());
}

}  // namespace

Comparison compare(const Schedule& schedule, std::span<const Timeline> steps) {
  SXT_CHECK(!steps.empty(), Internal, "no step to compare");
  Comparison out;
  out.steps = static_cast<int>(steps.size());
  out.skipped = steps.size() > 1 ? 1 : 0;
  const std::span<const Timeline> steady = steps.subspan(static_cast<size_t>(out.skipped));
  out.times = measured_times(schedule, steady);
  out.simulated_step = simulate(schedule, out.times.costs);
  const Figures expected = measure(out.simulated_step, kTogether);
  out.bubble_rank = expected.last;
  out.simulated = medians(std::span(&expected, 1), out.bubble_rank);
  std::vector<Figures> figures;
  for (const Timeline& step : steady) figures.push_back(measure(step));
  out.measured = medians(figures, out.bubble_rank);
  const size_t typical = find_typical(figures, out.measured.makespan);
  out.shown = out.skipped + static_cast<int>(typical);
  out.measured_step = steady[typical];
  out.order = find_order_difference(schedule, steady);
  out.differences = find_differences(schedule, out);
  return out;
}

}  // namespace sextant
