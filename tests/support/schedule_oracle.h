#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// The cost model of pipeline schedules in its plainest form, to hold generators to: every rank does
// its list in order, each operation as soon as its inputs are there. Slow, and shares no code with
// the simulator. Reads compute actions only.
struct OracleTimes {
  double f = 1, b = 1, w = 1, comm = 0;
  std::optional<double> joined = {};  // time of a joined block, then atomic
};

struct OracleResult {
  bool finished = true;  // or the ranks wait for each other
  double makespan = 0, span_bubble = 0;
  std::vector<double> idle;  // inside each rank's own span
  std::vector<int> peak;     // operations held
};

class Oracle {
 public:
  Oracle(const Schedule& schedule, const OracleTimes& times) : schedule_(schedule), times_(times) {}

  OracleResult run() {
    const size_t ranks = schedule_.ranks.size();
    std::vector<size_t> next(ranks, 0);
    std::vector<double> now(ranks, 0), start(ranks, -1), work(ranks, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks; ++r)
        while (next[r] < schedule_.ranks[r].size()) {
          const std::vector<Action>& todo = schedule_.ranks[r];
          const Action& first = todo[next[r]];
          const bool block = first.joined && times_.joined;
          const Action& last = todo[next[r] + (block ? 1 : 0)];
          const std::optional<double> one = ready(first), two = ready(last);
          if (!one || !two) break;
          const double begin = std::max({now[r], *one, *two});
          const double time = block ? *times_.joined : time_of(first.kind);
          now[r] = begin + time;
          work[r] += time;
          if (start[r] < 0) start[r] = begin;
          end_[key(first)] = end_[key(last)] = now[r];
          next[r] += block ? 2 : 1;
          moved = true;
        }
    }
    OracleResult out;
    for (size_t r = 0; r < ranks; ++r) {
      out.finished &= next[r] == schedule_.ranks[r].size();
      out.makespan = std::max(out.makespan, now[r]);
      out.idle.push_back(now[r] - start[r] - work[r]);
      out.span_bubble = std::max(out.span_bubble, now[r] - start[r]);
      out.peak.push_back(peak(schedule_.ranks[r]));
    }
    out.span_bubble -= *std::max_element(work.begin(), work.end());
    return out;
  }

 private:
  using Key = std::tuple<char, int, int>;
  // Whole and input backward are the same to those who wait for them.
  static Key key(const Action& action) {
    const char what = action.kind == Kind::F ? 'F' : action.kind == Kind::W ? 'W' : 'B';
    return {what, action.stage, action.micro};
  }
  double time_of(Kind kind) const {
    switch (kind) {
      case Kind::F:
        return times_.f;
      case Kind::I:
        return times_.b;
      case Kind::W:
        return times_.w;
      case Kind::B:
        return times_.b + times_.w;
      default:
        return 0;
    }
  }
  // When all inputs are there; nothing while one is missing.
  std::optional<double> ready(const Action& action) const {
    const auto [kind, stage, micro, joined] = action;
    std::vector<Key> needs;
    if (kind == Kind::F && stage > 0) needs.push_back({'F', stage - 1, micro});
    if (kind == Kind::B || kind == Kind::I) {
      needs.push_back({'F', stage, micro});
      if (stage + 1 < schedule_.stages) needs.push_back({'B', stage + 1, micro});
    }
    if (kind == Kind::W) needs.push_back({'B', stage, micro});
    double at = 0;
    for (const Key& need : needs) {
      const auto found = end_.find(need);
      if (found == end_.end()) return std::nullopt;
      const bool crosses =
          schedule_.rank_of(std::get<1>(need), micro) != schedule_.rank_of(stage, micro);
      at = std::max(at, found->second + (crosses ? times_.comm : 0));
    }
    return at;
  }
  static int peak(const std::vector<Action>& todo) {
    int held = 0, most = 0;
    for (const Action& action : todo) {
      if (action.kind == Kind::F) most = std::max(most, ++held);
      if (action.kind == Kind::B || action.kind == Kind::W) --held;
    }
    return most;
  }

  const Schedule& schedule_;
  OracleTimes times_;
  std::map<Key, double> end_;
};

inline OracleResult run_oracle(const Schedule& schedule, const OracleTimes& times = {}) {
  return Oracle(schedule, times).run();
}

}  // namespace sextant
