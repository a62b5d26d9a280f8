#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "schedule/blank_schedule.h"
#include "schedule/generators.h"
#include "schedule/timed_ranks.h"

namespace sextant {
namespace {

// Options of the heuristic, each tried both ways; in parentheses their names in the authors' code.
struct Variant {
  // Warm-up has no more forwards than end before the first backward arrives (the opposite of
  // allow_bubble_before_first_b).
  bool stops_before_first_backward;
  bool prefers_backward;  // leaves out a forward that would only delay the next rank (prioritize_b)
  // Puts a weight gradient into every gap, even if it delays later actions (no_bubble_greedy).
  bool fills_every_gap;
};

// One pass over ranks with one stage each: warm-up, then a forward and an input gradient in turn;
// weight gradients fill gaps and free memory when the limit is reached.
class AutoPass {
 public:
  AutoPass(int micros, std::span<const StageCost> costs, double comm, double limit, Variant variant)
      : ranks_(static_cast<int>(costs.size())),
        micros_(micros),
        comm_(comm),
        variant_(variant),
        time_(blank_schedule("zb-auto", ranks_, micros, 1, Placement::Loop), costs, comm, limit) {}

  // False when memory does not suffice.
  bool run() {
    if (!fill()) return false;
    for (int i = 1; i < micros_; ++i)
      if (!turn()) return false;
    for (int r = 0; r < ranks_; ++r) time_.put_all_weights(r);
    return true;
  }
  const TimedRanks& result() const { return time_; }

 private:
  bool fill() {
    for (int r = 0; r < ranks_; ++r) {
      if (!time_.make_room(Kind::F, r)) return false;
      time_.put(Kind::F, r);
    }
    const std::vector<int> extra = extra_forwards();
    for (int r = 0; r < ranks_; ++r)
      for (int i = 0; i < extra[r]; ++i) time_.put(Kind::F, r);
    for (int r = ranks_ - 1; r >= 0; --r) time_.put(Kind::I, r);
    return true;
  }

  // How many more forwards each rank has time and memory for before its first backward arrives.
  std::vector<int> extra_forwards() const {
    std::vector<int> extra(ranks_, 0);
    double back = time_.now(ranks_ - 1) + time_.cost(ranks_ - 1).input_grad_time;
    for (int r = ranks_ - 2; r >= 0; --r) {
      const StageCost& cost = time_.cost(r);
      double end = time_.now(r);
      const double arrives = back + comm_;
      while (1 + extra[r] < micros_ && time_.fits(r, (extra[r] + 1) * cost.activation_memory) &&
             !(variant_.stops_before_first_backward ? end + cost.forward_time > arrives
                                                    : end >= arrives)) {
        end += cost.forward_time;
        ++extra[r];
      }
      back = std::max(end, arrives) + cost.input_grad_time;
    }
    for (int r = 1; r < ranks_; ++r) {
      while (extra[r] > 0 && extra[r] >= extra[r - 1] && 1 + extra[r] < micros_) --extra[r];
      extra[r] = std::min(extra[r], extra[r - 1]);  // limited by the previous rank
    }
    return extra;
  }

  bool turn() {
    std::vector<bool> wanted(ranks_);
    for (int r = ranks_ - 1; r >= 0; --r)
      wanted[r] = wants_forward(r) && (r + 1 == ranks_ || wanted[r + 1]);
    for (int r = 0; r < ranks_; ++r) {
      if (!wanted[r]) continue;
      if (!prepare(Kind::F, r)) return false;
      time_.put(Kind::F, r);
    }
    for (int r = ranks_ - 1; r >= 0; --r) {
      if (!prepare(Kind::I, r)) return false;
      if (r == 0 && time_.forwards(0) == micros_) time_.put_all_weights(0);
      time_.put(Kind::I, r);
    }
    return true;
  }

  bool wants_forward(int r) const {
    if (time_.forwards(r) == micros_) return false;
    if (!variant_.prefers_backward || r + 1 == ranks_ ||
        time_.forwards(r) < time_.forwards(r + 1) + 2)
      return true;
    const StageCost& next = time_.cost(r + 1);
    const double until = time_.now(r + 1) + next.forward_time + next.input_grad_time + comm_;
    if (time_.now(r) >= until) return false;
    const double end = time_.now(r) + time_.cost(r).forward_time + weights_for_room(r);
    return end <= until || until - time_.now(r) > time_.most_idle() - time_.idle(r);
  }
  // Time of the weight gradients that must run before one more forward fits in memory.
  double weights_for_room(int r) const {
    const StageCost& cost = time_.cost(r);
    int count = 0;
    while (cost.memory_for_weight_grad > 0 &&
           !time_.fits(r, cost.activation_memory - count * cost.memory_for_weight_grad))
      ++count;
    return count * cost.weight_grad_time;
  }

  // Runs weight gradients to free memory for the next F or I and to fill the gap before its input.
  bool prepare(Kind kind, int r) {
    if (!time_.make_room(kind, r)) return false;
    const std::optional<double> arrives = time_.arrival(kind, r);
    if (!arrives) return true;
    while (time_.has_pending_weight(r) && time_.now(r) + time_.next_weight_time(r) <= *arrives)
      time_.put_weight(r);
    const double gap = *arrives - time_.now(r);
    if (time_.has_pending_weight(r) && gap > 0 &&
        (variant_.fills_every_gap || gap > time_.most_idle() - time_.idle(r)))
      time_.put_weight(r);
    return true;
  }

  int ranks_, micros_;
  double comm_;
  Variant variant_;
  TimedRanks time_;
};

}  // namespace

Schedule zb_auto(int micros, std::span<const StageCost> costs, double comm, double memory_limit) {
  std::optional<Schedule> best;
  double shortest = std::numeric_limits<double>::infinity();
  for (const bool stops : {true, false})
    for (const bool prefers : {true, false})
      for (const bool fills : {true, false}) {
        AutoPass pass(micros, costs, comm, memory_limit, {stops, prefers, fills});
        if (!pass.run() || pass.result().longest_span() >= shortest) continue;
        shortest = pass.result().longest_span();
        best = pass.result().schedule();
      }
  SXT_CHECK(best, Config, "zb-auto: memory limit ", memory_limit,
            " is too small; one forward holds ",
            std::ranges::max(costs, {}, &StageCost::activation_memory).activation_memory);
  return *best;
}

}  // namespace sextant
