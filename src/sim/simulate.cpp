// Each rank runs its list until an input is missing; the producer of that input then wakes it.
// Start times depend on inputs alone, not on the order in which ranks are visited, so no event
// queue is needed: every action is visited once, plus once per wait.
#include "sim/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "schedule/dependencies.h"
#include "schedule/print.h"

namespace sextant {
namespace {

constexpr double kNotYet = -1;
constexpr int64_t kNothing = -1;

void check_costs(const Schedule& schedule, const Costs& costs) {
  const auto check_time = [](const char* what, double time) {
    SXT_CHECK(std::isfinite(time) && time >= 0, Config, "simulate: ", what, " time ", time,
              ", must be finite and not negative");
  };
  const size_t given = costs.stages.size();
  SXT_CHECK(given == 1 || given == static_cast<size_t>(schedule.stages), Config,
            "simulate: times of ", given, " stages for a schedule of ", schedule.stages,
            ", give one or ", schedule.stages);
  for (const StageCost& times : costs.stages) {
    check_time("forward", times.forward_time);
    check_time("input", times.input_grad_time);
    check_time("weight", times.weight_grad_time);
  }
  check_time("latency", costs.latency);
  check_time("wire", costs.wire);
  check_time("overlap", costs.overlap.value_or(0));
}

class Simulation {
 public:
  Simulation(const Schedule& schedule, const Costs& costs);
  Timeline run();

 private:
  struct Rank {
    size_t next = 0;  // in its list
    double free = 0;
    int64_t waits_for = kNothing;              // index of an output
    std::array<double, 2> link_free = {0, 0};  // link to the next rank, to the previous one
  };

  // Index of outputs: those of F first, then those of I and B.
  int64_t forward_of(int stage, int micro) const {
    return static_cast<int64_t>(stage) * schedule_.micros + micro;
  }
  int64_t backward_of(int stage, int micro) const { return outputs_ + forward_of(stage, micro); }
  int rank_of(int stage, int micro) const {
    return owners_[static_cast<size_t>(micro >= second_half_ ? schedule_.stages + stage : stage)];
  }
  double duration(const Action& action) const {
    return durations_[static_cast<size_t>(action.kind)][static_cast<size_t>(action.stage)];
  }

  bool find_inputs(const Action& action, double& ready, int64_t& missing) const;
  bool find_input(int64_t output, double& ready, int64_t& missing) const;
  void publish(int rank, const Action& action, double end);
  void wake(int rank, int64_t output);
  bool step(int rank);
  void check(int rank, const Action& action) const;
  size_t skip_to_compute(int rank, size_t from) const;
  std::string name_output(int64_t output) const;
  [[noreturn]] void report_deadlock() const;

  const Schedule& schedule_;
  const Costs& costs_;
  int64_t outputs_;          // number of outputs of one kind
  int second_half_;          // first micro of the second half
  std::vector<int> owners_;  // rank of each stage for the first half of the micros, then the second
  std::array<std::vector<double>, 4> durations_;  // [kind][stage]
  std::vector<double> arrivals_;                  // of each output at its consumer, or kNotYet
  std::vector<Rank> ranks_;
  std::vector<int> runnable_;
  Timeline timeline_;
};

Simulation::Simulation(const Schedule& schedule, const Costs& costs)
    : schedule_(schedule),
      costs_(costs),
      outputs_(static_cast<int64_t>(schedule.stages) * schedule.micros),
      second_half_(schedule.placement == Placement::Dual ? (schedule.micros + 1) / 2
                                                         : schedule.micros),
      arrivals_(static_cast<size_t>(2 * outputs_), kNotYet),
      ranks_(schedule.ranks.size()) {
  for (const int micro : {0, schedule.micros - 1})
    for (int stage = 0; stage < schedule.stages; ++stage)
      owners_.push_back(schedule.rank_of(stage, micro));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const StageCost& times =
        costs.stages[costs.stages.size() == 1 ? 0 : static_cast<size_t>(stage)];
    durations_[static_cast<size_t>(Kind::F)].push_back(times.forward_time);
    durations_[static_cast<size_t>(Kind::B)].push_back(times.input_grad_time +
                                                       times.weight_grad_time);
    durations_[static_cast<size_t>(Kind::I)].push_back(times.input_grad_time);
    durations_[static_cast<size_t>(Kind::W)].push_back(times.weight_grad_time);
  }
  for (const std::vector<Action>& rank : schedule.ranks)
    timeline_.ranks.emplace_back().reserve(rank.size());
  for (int rank = schedule.size() - 1; rank >= 0; --rank) runnable_.push_back(rank);
}

bool Simulation::find_input(int64_t output, double& ready, int64_t& missing) const {
  const double arrival = arrivals_[static_cast<size_t>(output)];
  if (arrival == kNotYet) {
    missing = output;
    return false;
  }
  ready = std::max(ready, arrival);
  return true;
}

bool Simulation::find_inputs(const Action& action, double& ready, int64_t& missing) const {
  const auto [stage, micro] = std::pair(action.stage, action.micro);
  if (action.kind == Kind::F)
    return stage == 0 || find_input(forward_of(stage - 1, micro), ready, missing);
  // Outputs of this rank are available locally, whenever they arrive elsewhere.
  double local = 0;
  if (action.kind == Kind::W) return find_input(backward_of(stage, micro), local, missing);
  return find_input(forward_of(stage, micro), local, missing) &&
         (stage == schedule_.stages - 1 ||
          find_input(backward_of(stage + 1, micro), ready, missing));
}

void Simulation::wake(int rank, int64_t output) {
  Rank& waiting = ranks_[static_cast<size_t>(rank)];
  if (waiting.waits_for != output) return;
  waiting.waits_for = kNothing;
  runnable_.push_back(rank);
}

void Simulation::publish(int rank, const Action& action, double end) {
  if (action.kind == Kind::W) return;
  const bool is_forward = action.kind == Kind::F;
  const int64_t output =
      is_forward ? forward_of(action.stage, action.micro) : backward_of(action.stage, action.micro);
  const int reader = is_forward ? action.stage + 1 : action.stage - 1;
  double arrival = end;
  if (reader >= 0 && reader < schedule_.stages) {
    const int to = rank_of(reader, action.micro);
    if (to != rank) {
      const bool is_next = to == (rank + 1) % schedule_.size();
      double& link_free = ranks_[static_cast<size_t>(rank)].link_free[is_next ? 0 : 1];
      link_free = std::max(end, link_free) + costs_.wire;
      arrival = link_free + costs_.latency;
      wake(to, output);
    }
  }
  arrivals_[static_cast<size_t>(output)] = arrival;
}

void Simulation::check(int rank, const Action& action) const {
  SXT_CHECK(action.stage >= 0 && action.stage < schedule_.stages && action.micro >= 0 &&
                action.micro < schedule_.micros && rank_of(action.stage, action.micro) == rank,
            Config, "simulate: rank ", rank, " has an action of stage ", action.stage, ", micro ",
            action.micro, ", which is not on it");
}

size_t Simulation::skip_to_compute(int rank, size_t from) const {
  const std::vector<Action>& todo = schedule_.ranks[static_cast<size_t>(rank)];
  while (from < todo.size() && !is_compute(todo[from].kind)) ++from;
  return from;
}

// Runs the rank's next action or joined block; false when it has none or an input is missing.
bool Simulation::step(int rank) {
  const std::vector<Action>& todo = schedule_.ranks[static_cast<size_t>(rank)];
  Rank& self = ranks_[static_cast<size_t>(rank)];
  self.next = skip_to_compute(rank, self.next);
  if (self.next == todo.size()) return false;
  const Action& action = todo[self.next];
  check(rank, action);
  double start = self.free;
  if (!find_inputs(action, start, self.waits_for)) return false;
  const Action* other = nullptr;
  if (action.joined && costs_.overlap) {
    const size_t second = skip_to_compute(rank, self.next + 1);
    SXT_CHECK(second < todo.size(), Config, "simulate: the last action of rank ", rank,
              " is joined with a next one");
    other = &todo[second];
    check(rank, *other);
    if (!find_inputs(*other, start, self.waits_for)) return false;
    self.next = second;
  }
  const double end = start + (other != nullptr ? *costs_.overlap : duration(action));
  std::vector<TimedAction>& did = timeline_.ranks[static_cast<size_t>(rank)];
  self.free = end;
  ++self.next;
  did.push_back({action, start, end});
  publish(rank, action, end);
  if (other != nullptr) {
    did.push_back({*other, start, end});
    publish(rank, *other, end);
  }
  return true;
}

std::string Simulation::name_output(int64_t output) const {
  const bool is_forward = output < outputs_;
  const int64_t index = is_forward ? output : output - outputs_;
  return concat(is_forward ? "forward" : "backward", " of stage ", index / schedule_.micros,
                ", micro ", index % schedule_.micros);
}

void Simulation::report_deadlock() const {
  constexpr int kMost = 4;
  std::string waiting;
  int count = 0;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& self = ranks_[rank];
    if (self.waits_for == kNothing || ++count > kMost) continue;
    waiting += concat(waiting.empty() ? "" : "; ", "rank ", rank, " at ",
                      describe(schedule_.ranks[rank][self.next]), " waits for the ",
                      name_output(self.waits_for));
  }
  if (count > kMost) waiting += concat("; and ", count - kMost, " more ranks wait");
  SXT_FAIL(Config, "schedule ", schedule_.name, " cannot go on: ", waiting);
}

Timeline Simulation::run() {
  while (!runnable_.empty()) {
    const int rank = runnable_.back();
    runnable_.pop_back();
    while (step(rank)) {
    }
  }
  if (std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.waits_for != kNothing; }))
    report_deadlock();
  return std::move(timeline_);
}

}  // namespace

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  SXT_CHECK(schedule.size() > 0 && schedule.stages > 0 && schedule.micros > 0, Config,
            "simulate: a schedule of ", schedule.size(), " ranks, ", schedule.stages,
            " stages and ", schedule.micros, " micros, must have at least one of each");
  check_costs(schedule, costs);
  return Simulation(schedule, costs).run();
}

}  // namespace sextant
