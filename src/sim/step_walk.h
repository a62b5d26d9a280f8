#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "schedule/dependencies.h"
#include "sim/timeline.h"

namespace sextant {

// Compute actions are indexed by kind, stage and micro.
inline size_t action_count(const Schedule& schedule) {
  return 4 * static_cast<size_t>(schedule.stages) * static_cast<size_t>(schedule.micros);
}
inline size_t action_index(const Schedule& schedule, const Action& action) {
  return (static_cast<size_t>(action.kind) * static_cast<size_t>(schedule.stages) +
          static_cast<size_t>(action.stage)) *
             static_cast<size_t>(schedule.micros) +
         static_cast<size_t>(action.micro);
}

// Start and end of each action of a timeline, by action.
class ActionTimes {
 public:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  ActionTimes(const Schedule& schedule, const Timeline& timeline)
      : schedule_(schedule), times_(action_count(schedule), {{}, kNever, kNever}) {
    for (const std::vector<TimedAction>& rank : timeline.ranks)
      for (const TimedAction& timed : rank) times_[action_index(schedule, timed.action)] = timed;
  }
  const TimedAction& of(const Action& action) const {
    return times_[action_index(schedule_, action)];
  }
  // End of the action on another rank that this one depends on; kNever when there is none.
  double input_end(const Action& action) const {
    if (action.kind == Kind::W) return kNever;
    const bool forward = action.kind == Kind::F;
    const int from = action.stage + (forward ? -1 : 1);
    if (from < 0 || from >= schedule_.stages ||
        schedule_.rank_of(from, action.micro) == schedule_.rank_of(action.stage, action.micro))
      return kNever;
    if (forward) return of({Kind::F, from, action.micro}).end;
    // Only one of the two exists.
    return std::max(of({Kind::B, from, action.micro}).end, of({Kind::I, from, action.micro}).end);
  }

 private:
  const Schedule& schedule_;
  std::vector<TimedAction> times_;
};

// Whether this action and the next one ran as one block.
inline bool is_block(const std::vector<TimedAction>& rank, size_t at) {
  return at + 1 < rank.size() && rank[at].action.joined && rank[at + 1].start < rank[at].end;
}

// Calls f(first, last, free, input) for each action or block of a rank, rank[first] ... rank[last]:
// `free` is when the rank became free, `input` when the last input from another rank was made
// (kNever without one).
template <typename F>
void for_each_block(const ActionTimes& times, const std::vector<TimedAction>& rank, F&& f) {
  double free = rank.empty() ? 0 : rank[0].start;
  for (size_t first = 0; first < rank.size();) {
    const size_t last = is_block(rank, first) ? first + 1 : first;
    f(first, last, free,
      std::max(times.input_end(rank[first].action), times.input_end(rank[last].action)));
    free = std::max({free, rank[first].end, rank[last].end});
    first = last + 1;
  }
}

}  // namespace sextant
