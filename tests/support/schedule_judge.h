#pragma once
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "schedule/schedule.h"

namespace sextant {

// The same question as validate, for schedules that have every action once: no circle among what
// has to come before what, and the same order at both ends of every channel.
class Judge {
 public:
  explicit Judge(const Schedule& schedule) : schedule_(schedule) {
    for (const std::vector<Action>& todo : schedule.ranks)
      for (const Action& action : todo) has_comms_ |= action.kind == Kind::SendF;
  }
  bool accepts() {
    for (int rank = 0; rank < schedule_.size(); ++rank) {
      const Action* last = nullptr;
      for (const Action& action : schedule_.ranks[rank]) {
        if (last) after(*last, action);
        last = &action;
        inputs(action);
        ends(rank, action);
      }
    }
    return made_ == used_ && sent_ == received_ && is_free_of_circles();
  }

 private:
  using Key = std::tuple<char, int, int>;
  using Lists = std::map<std::string, std::vector<std::pair<int, int>>>;
  static Key key(const Action& a) {
    const char letters[] = {'F', 'B', 'B', 'W', 's', 'r', 't', 'u', 'g', 'd'};
    return {letters[static_cast<int>(a.kind)], a.stage, a.micro};
  }
  void after(const Action& first, const Action& second) {
    edges_[key(first)].push_back(key(second));
  }
  void inputs(const Action& a) {
    const auto from = [&](Kind kind, int stage) { after({kind, stage, a.micro}, a); };
    const bool forward = a.kind == Kind::F, backward = a.kind == Kind::B || a.kind == Kind::I;
    if (backward) from(Kind::F, a.stage);
    if (a.kind == Kind::W) from(Kind::I, a.stage);
    if (a.kind == Kind::SendF) from(Kind::F, a.stage);
    if (a.kind == Kind::SendB) from(Kind::I, a.stage);
    if (a.kind == Kind::RecvF) from(Kind::SendF, a.stage - 1);
    if (a.kind == Kind::RecvB) from(Kind::SendB, a.stage + 1);
    const int other = forward ? a.stage - 1 : a.stage + 1;
    if ((!forward && !backward) || other < 0 || other == schedule_.stages) return;
    const bool local = schedule_.rank_of(other, a.micro) == schedule_.rank_of(a.stage, a.micro);
    if (local || !has_comms_) {
      from(forward ? Kind::F : Kind::I, other);
    } else {
      from(forward ? Kind::RecvF : Kind::RecvB, a.stage);
    }
  }
  // Notes the action under the boundary between two ranks that it is an end of.
  void ends(int rank, const Action& a) {
    const auto note = [&](Lists& lists, int to_or_from, bool outwards, bool forward, int boundary) {
      if (to_or_from < 0 || to_or_from == schedule_.stages) return;
      const int other = schedule_.rank_of(to_or_from, a.micro);
      if (other == rank) return;
      const int from = outwards ? rank : other, to = outwards ? other : rank;
      lists[concat(from, ">", to, forward ? "F" : "B")].push_back({boundary, a.micro});
    };
    switch (a.kind) {
      case Kind::F:
        note(made_, a.stage + 1, true, true, a.stage);
        note(used_, a.stage - 1, false, true, a.stage - 1);
        break;
      case Kind::B:
      case Kind::I:
        note(made_, a.stage - 1, true, false, a.stage - 1);
        note(used_, a.stage + 1, false, false, a.stage);
        break;
      case Kind::SendF:
        note(sent_, a.stage + 1, true, true, a.stage);
        break;
      case Kind::RecvF:
        note(received_, a.stage - 1, false, true, a.stage - 1);
        break;
      case Kind::SendB:
        note(sent_, a.stage - 1, true, false, a.stage - 1);
        break;
      case Kind::RecvB:
        note(received_, a.stage + 1, false, false, a.stage);
        break;
      default:
        break;
    }
  }
  bool is_free_of_circles() {
    std::map<Key, int> open;
    for (const auto& [from, tos] : edges_) {
      open[from];
      for (const Key& to : tos) ++open[to];
    }
    std::vector<Key> ready;
    for (const auto& [at, count] : open)
      if (count == 0) ready.push_back(at);
    size_t done = 0;
    for (; done < ready.size(); ++done) {
      const Key at = ready[done];
      for (const Key& to : edges_[at])
        if (--open[to] == 0) ready.push_back(to);
    }
    return done == open.size();
  }

  const Schedule& schedule_;
  bool has_comms_ = false;
  std::map<Key, std::vector<Key>> edges_;
  Lists made_, used_, sent_, received_;
};

}  // namespace sextant
