#include <algorithm>

#include "base/error.h"
#include "plan/step_time.h"
#include "schedule/make_schedule.h"
#include "sim/simulate.h"

namespace sextant {
namespace {

StageCost cost_of(const RankTime& time, double chunks) {
  return {.forward_time = time.forward / chunks,
          .input_grad_time = time.input / chunks,
          .weight_grad_time = time.weight / chunks};
}

// One cost per stage: a rank's time shared out over its chunks. Where a rank holds stages of both
// ends, its time is that of a middle rank, and the ends bear what they have beyond it.
std::vector<StageCost> stage_costs(const Layout& layout, const RankTimes& ranks,
                                   const Schedule& schedule) {
  const RankTime& middle = layout.pp > 2 ? ranks.middle : ranks.first;
  const double chunks = static_cast<double>(schedule.stages) / layout.pp;
  std::vector<StageCost> costs(static_cast<size_t>(schedule.stages), cost_of(middle, chunks));
  const auto add = [&](StageCost& cost, const RankTime& time) {
    cost.forward_time = std::max(0.0, cost.forward_time + time.forward - middle.forward);
    cost.input_grad_time = std::max(0.0, cost.input_grad_time + time.input - middle.input);
    cost.weight_grad_time = std::max(0.0, cost.weight_grad_time + time.weight - middle.weight);
  };
  if (schedule.placement != Placement::Loop) {
    add(costs.front(), ranks.first);
    add(costs.back(), ranks.last);
    return costs;
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int rank = schedule.rank_of(stage, 0);
    if (rank == 0) costs[static_cast<size_t>(stage)] = cost_of(ranks.first, chunks);
    if (rank == layout.pp - 1) costs[static_cast<size_t>(stage)] = cost_of(ranks.last, chunks);
  }
  return costs;
}

}  // namespace

StepTerms simulated_step_time(const Case& asked, const Constants& constants, int64_t most) {
  StepTerms time = step_time(asked, constants);
  const Layout& l = asked.layout;
  const int64_t micros = std::max<int64_t>(asked.micros(), 1);
  if (l.pp == 1 || 3 * micros * l.pp * std::max(l.chunks, 1) > most) return time;
  const RankTimes ranks = rank_times(asked, constants);
  ScheduleRequest request;
  request.name = name_of(l.schedule);
  request.ranks = l.pp;
  request.micros = static_cast<int>(micros);
  request.chunks = l.chunks;
  const RankTime& mid = l.pp > 2 ? ranks.middle : ranks.first;
  request.costs = {
      {.forward_time = mid.forward, .input_grad_time = mid.input, .weight_grad_time = mid.weight}};
  Schedule schedule;
  try {
    schedule = make_schedule(request);
  } catch (const Error&) {
    return time;  // no such schedule for these numbers
  }
  Costs costs;
  costs.stages = stage_costs(l, ranks, schedule);
  costs.wire = ranks.message;
  // Messages beside compute still take their share of it; those of one chunk per rank are waited
  // for, which the simulation shows.
  if (l.chunks > 1)
    for (StageCost& cost : costs.stages) {
      cost.forward_time += constants.overlap * ranks.message;
      cost.input_grad_time += constants.overlap * ranks.message;
    }
  const double makespan = measure(simulate(schedule, costs)).makespan;
  const double before = time.pipeline + time.messages;
  const double closed = time.total() - time.data - time.optimizer;
  time.messages = 0;
  time.pipeline = before + makespan - closed;
  return time;
}

}  // namespace sextant
