#include <algorithm>

#include "base/error.h"
#include "plan/pipeline_times.h"
#include "plan/step_time.h"
#include "schedule/add_comms.h"
#include "schedule/make_schedule.h"
#include "sim/simulate.h"

namespace sextant {
namespace {

// a + times * b, nothing below zero.
RankTime plus(const RankTime& a, const RankTime& b, double times) {
  const auto sum = [&](double x, double y) { return std::max(0.0, x + times * y); };
  const auto both = [&](const RankTime::Exposed& x, const RankTime::Exposed& y) {
    return RankTime::Exposed{sum(x.forward, y.forward), sum(x.backward, y.backward)};
  };
  RankTime out;
  out.forward = sum(a.forward, b.forward);
  out.input = sum(a.input, b.input);
  out.weight = sum(a.weight, b.weight);
  out.tp = both(a.tp, b.tp);
  out.cp = both(a.cp, b.cp);
  out.ep = both(a.ep, b.ep);
  return out;
}

Schedule serial_schedule(int64_t micros) {
  Schedule out;
  out.name = "none";
  out.stages = 1;
  out.micros = static_cast<int>(micros);
  out.ranks.resize(1);
  for (int micro = 0; micro < out.micros; ++micro) {
    out.ranks[0].push_back({Kind::F, 0, micro});
    out.ranks[0].push_back({Kind::B, 0, micro});
  }
  return out;
}

}  // namespace

Schedule compute_schedule(const Case& asked, const RankTimes& ranks) {
  const Layout& l = asked.layout;
  const int64_t micros = std::max<int64_t>(asked.micros(), 1);
  if (l.pp == 1) return serial_schedule(micros);
  ScheduleRequest request;
  request.name = name_of(l.schedule);
  request.ranks = l.pp;
  request.micros = static_cast<int>(micros);
  request.chunks = l.chunks;
  if (l.schedule == ScheduleKind::Interleaved || l.schedule == ScheduleKind::InterleavedZb)
    request.micro_group = smallest_micro_group(request.ranks, request.micros);
  const RankTime& mid = l.pp > 2 ? ranks.middle : ranks.first;
  request.costs = {
      {.forward_time = mid.forward, .input_grad_time = mid.input, .weight_grad_time = mid.weight}};
  return make_schedule(request);
}

Schedule pipeline_schedule(const Case& asked, const RankTimes& ranks) {
  return add_comms(compute_schedule(asked, ranks));
}

std::vector<RankTime> stage_times(const Layout& layout, const RankTimes& ranks,
                                  const Schedule& schedule) {
  if (layout.pp == 1) return {ranks.last};
  const RankTime& middle = layout.pp > 2 ? ranks.middle : ranks.first;
  const double share = static_cast<double>(layout.pp) / schedule.stages;
  std::vector<RankTime> out(static_cast<size_t>(schedule.stages), plus({}, middle, share));
  if (schedule.placement != Placement::Loop) {
    const auto add = [&](RankTime& stage, const RankTime& end) {
      stage = plus(plus(stage, end, 1), middle, -1);
    };
    add(out.front(), ranks.first);
    add(out.back(), ranks.last);
    return out;
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int rank = schedule.rank_of(stage, 0);
    if (rank == 0) out[static_cast<size_t>(stage)] = plus({}, ranks.first, share);
    if (rank == layout.pp - 1) out[static_cast<size_t>(stage)] = plus({}, ranks.last, share);
  }
  return out;
}

StepTerms simulated_step_time(const Case& asked, const Constants& constants, int64_t most) {
  StepTerms time = step_time(asked, constants);
  const Layout& l = asked.layout;
  const int64_t micros = std::max<int64_t>(asked.micros(), 1);
  if (l.pp == 1 || 3 * micros * l.stages() > most) return time;
  const RankTimes ranks = rank_times(asked, constants);
  Schedule schedule;
  try {
    schedule = compute_schedule(asked, ranks);
  } catch (const Error&) {
    return time;  // no such schedule for these numbers
  }
  Costs costs;
  costs.stages.clear();
  // Messages beside compute still take their share of it; those of one chunk per rank are waited
  // for, which the simulation shows.
  const double beside = l.stages() > l.pp ? constants.overlap * ranks.message : 0;
  const bool waits = asked.practice.sends_wait;
  const std::vector<RankTime> stages = stage_times(l, ranks, schedule);
  for (size_t i = 0; i < stages.size(); ++i) {
    const int neighbours = (i > 0) + (i + 1 < stages.size());
    const double messages = waits ? neighbours * ranks.message : beside;
    costs.stages.push_back({.forward_time = stages[i].forward + messages,
                            .input_grad_time = stages[i].input + messages,
                            .weight_grad_time = stages[i].weight});
  }
  costs.wire = waits ? 0 : ranks.message;
  const double makespan = measure(simulate(schedule, costs)).makespan;
  const double before = time.pipeline + time.messages;
  const double closed = time.total() - time.data - time.optimizer - time.offload;
  time.messages = 0;
  time.pipeline = before + makespan - closed;
  return time;
}

}  // namespace sextant
