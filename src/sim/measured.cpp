#include "sim/measured.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "schedule/print.h"
#include "sim/step_walk.h"

namespace sextant {
namespace {

// Parses "F of stage 2, micro 3"; nullopt for any other name.
std::optional<Action> parse_action(const std::string& name) {
  for (const Kind kind : {Kind::F, Kind::B, Kind::I, Kind::W}) {
    const std::string begin = kind_name(kind) + " of stage ", between = ", micro ";
    const size_t comma = name.find(between);
    if (!name.starts_with(begin) || comma == std::string::npos) continue;
    const std::optional<int64_t> stage = parse_int(name.substr(begin.size(), comma - begin.size())),
                                 micro = parse_int(name.substr(comma + between.size()));
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (!stage || !micro || *stage < 0 || *micro < 0 || *stage > kMost || *micro > kMost) return {};
    return Action{kind, static_cast<int>(*stage), static_cast<int>(*micro)};
  }
  return {};
}

// Every run of each action on one rank, by time.
class RankHistory {
 public:
  RankHistory(const Schedule& schedule, int rank)
      : schedule_(schedule), rank_(rank), all_(action_count(schedule)), forward_(all_.size()) {}

  // Takes actions by ascending start. A forward counts once its backward comes.
  void add(const TimedAction& timed, const std::string& what) {
    const Action& action = timed.action;
    SXT_CHECK(action.stage < schedule_.stages && action.micro < schedule_.micros &&
                  schedule_.rank_of(action.stage, action.micro) == rank_,
              Data, what, ": rank ", rank_, " did ", describe(action), ", but the run has ",
              schedule_.stages, " stages and ", schedule_.micros,
              " micro-batches and that not there; it is the trace of another run");
    std::optional<TimedAction>& forward =
        forward_[action_index(schedule_, {Kind::F, action.stage, action.micro})];
    if (action.kind == Kind::F) {
      forward = timed;
      return;
    }
    if (action.kind != Kind::W && forward) {
      of(forward->action).push_back(*forward);
      forward.reset();
    }
    of(action).push_back(timed);
  }
  std::vector<TimedAction>& of(const Action& action) {
    return all_[action_index(schedule_, action)];
  }
  // An action that ran but is not in the schedule.
  std::optional<Action> find_other(const std::vector<Action>& listed) const {
    std::vector<bool> is_listed(all_.size());
    for (const Action& action : listed)
      if (is_compute(action.kind)) is_listed[action_index(schedule_, action)] = true;
    for (size_t i = 0; i < all_.size(); ++i)
      if (!is_listed[i] && !all_[i].empty()) return all_[i][0].action;
    return {};
  }

 private:
  const Schedule& schedule_;
  int rank_;
  std::vector<std::vector<TimedAction>> all_;
  std::vector<std::optional<TimedAction>> forward_;  // last run of each, until its backward comes
};

std::vector<TimedAction> actions_of(std::span<const Span> spans, int world_rank) {
  std::vector<TimedAction> found;
  for (const Span& span : spans)
    if (span.rank == world_rank && span.lane == 0)
      if (const std::optional<Action> action = parse_action(span.name))
        found.push_back({*action, span.begin, span.end});
  std::ranges::stable_sort(found, {}, &TimedAction::start);
  return found;
}

// The actions of one step of a rank, in the order in which they ran.
std::vector<TimedAction> rank_step(const std::vector<Action>& listed, RankHistory& history,
                                   size_t step) {
  std::vector<TimedAction> did;
  for (const Action& action : listed) {
    if (!is_compute(action.kind)) continue;
    did.push_back(history.of(action)[step]);
    did.back().action = action;
    if (did.size() < 2 || !did[did.size() - 2].action.joined) continue;
    TimedAction &one = did[did.size() - 2], &two = did.back();
    if (one.start >= two.end || two.start >= one.end) continue;
    one.start = two.start = std::min(one.start, two.start);
    one.end = two.end = std::max(one.end, two.end);
  }
  std::ranges::stable_sort(did, {}, &TimedAction::start);
  return did;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Timeline> measured_steps(std::span<const Span> spans, const Schedule& schedule,
                                     const PipelineRanks& ranks, const std::string& what) {
  std::vector<RankHistory> histories;
  size_t steps = std::numeric_limits<size_t>::max();
  for (int rank = 0; rank < schedule.size(); ++rank) {
    const int world_rank = ranks.first + rank * ranks.apart;
    const std::vector<TimedAction> did = actions_of(spans, world_rank);
    SXT_CHECK(!did.empty(), Data, what, " has no action of rank ", world_rank, " (rank ", rank,
              " of a pipeline of ", schedule.size(),
              "); run.trace = true writes one with all ranks");
    RankHistory& history = histories.emplace_back(schedule, rank);
    for (const TimedAction& timed : did) history.add(timed, what);
    const std::vector<Action>& listed = schedule.ranks[static_cast<size_t>(rank)];
    if (const std::optional<Action> other = history.find_other(listed))
      SXT_FAIL(Data, what, ": rank ", world_rank, " did ", describe(*other), ", which ",
               schedule.name, " has not; it is the trace of another run");
    for (const Action& action : listed) {
      if (!is_compute(action.kind)) continue;
      SXT_CHECK(!history.of(action).empty(), Data, what, ": rank ", world_rank, " never did ",
                describe(action),
                ", which the run has; it is the trace of another run, or no step was finished");
      steps = std::min(steps, history.of(action).size());
    }
  }
  std::vector<Timeline> out(steps);
  for (size_t step = 0; step < steps; ++step)
    for (int rank = 0; rank < schedule.size(); ++rank)
      out[step].ranks.push_back(rank_step(schedule.ranks[static_cast<size_t>(rank)],
                                          histories[static_cast<size_t>(rank)], step));
  return out;
}

namespace {

struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / count; }
};

// Means over one step.
struct StepMeans {
  explicit StepMeans(const Schedule& schedule) : operations(static_cast<size_t>(schedule.stages)) {}
  std::vector<std::array<Mean, 4>> operations;  // [stage][kind]
  Mean blocks, delays;
};

StepMeans means_of(const Schedule& schedule, const Timeline& step) {
  StepMeans means(schedule);
  const ActionTimes times(schedule, step);
  for (const std::vector<TimedAction>& rank : step.ranks)
    for_each_block(times, rank, [&](size_t first, size_t last, double free, double input) {
      const TimedAction& timed = rank[first];
      const double taken = timed.end - timed.start;
      if (last > first)
        means.blocks.add(taken);
      else
        means
            .operations[static_cast<size_t>(timed.action.stage)]
                       [static_cast<size_t>(timed.action.kind)]
            .add(taken);
      // The rank was free before the input was made. A step's first action may start late itself.
      if (first > 0 && input > free) means.delays.add(std::max(0.0, timed.start - input));
    });
  return means;
}

// The median over the steps that have any.
template <typename Of>
std::optional<double> median_of(std::span<const StepMeans> steps, Of&& of) {
  std::vector<double> values;
  for (const StepMeans& step : steps)
    if (const Mean& mean = of(step); mean.count > 0) values.push_back(mean.value());
  return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}

Costs costs_of(const Schedule& schedule, std::span<const StepMeans> steps) {
  std::vector<StageCost> stages;
  for (size_t stage = 0; stage < static_cast<size_t>(schedule.stages); ++stage) {
    const auto time_of = [&](Kind kind) {
      return median_of(steps, [&](const StepMeans& step) -> const Mean& {
        return step.operations[stage][static_cast<size_t>(kind)];
      });
    };
    StageCost cost = kCountHeld;
    cost.forward_time = time_of(Kind::F).value_or(0);
    const double half = time_of(Kind::B).value_or(0) / 2;
    cost.input_grad_time = time_of(Kind::I).value_or(half);
    cost.weight_grad_time = time_of(Kind::W).value_or(half);
    stages.push_back(cost);
  }
  const auto delays = [](const StepMeans& step) -> const Mean& { return step.delays; };
  const auto blocks = [](const StepMeans& step) -> const Mean& { return step.blocks; };
  return {.stages = std::move(stages),
          .latency = median_of(steps, delays).value_or(0),
          .overlap = median_of(steps, blocks)};
}

}  // namespace

MeasuredTimes measured_times(const Schedule& schedule, std::span<const Timeline> steps) {
  SXT_CHECK(!steps.empty(), Internal, "times of no step");
  std::vector<StepMeans> means;
  for (const Timeline& step : steps) means.push_back(means_of(schedule, step));
  MeasuredTimes out{costs_of(schedule, means), 0};
  std::vector<double> pauses;
  for (const Timeline& step : steps) {
    const ActionTimes times(schedule, step);
    for (const std::vector<TimedAction>& rank : step.ranks)
      for_each_block(times, rank, [&](size_t first, size_t, double free, double input) {
        if (first > 0 && input <= free - out.costs.latency)
          pauses.push_back(std::max(0.0, rank[first].start - free));
      });
  }
  out.between = median(std::move(pauses));
  return out;
}

}  // namespace sextant
