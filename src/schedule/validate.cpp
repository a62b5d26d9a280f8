#include "schedule/validate.h"

#include <string>

#include "base/error.h"
#include "schedule/channels.h"
#include "schedule/dependencies.h"
#include "schedule/print.h"

namespace sextant {
namespace {

std::string place(const Schedule& schedule, int rank, size_t at) {
  return concat(schedule.name, ": rank ", rank, ", action ", at + 1, " (",
                describe(schedule.ranks[rank][at]), ")");
}

void check_form(const Schedule& schedule) {
  const int ranks = schedule.size();
  SXT_CHECK(ranks > 0 && schedule.stages > 0 && schedule.micros > 0, Config, schedule.name, ": ",
            ranks, " ranks, ", schedule.stages, " stages, ", schedule.micros,
            " micros; none may be 0");
  int64_t actions = 0;
  for (const std::vector<Action>& todo : schedule.ranks)
    actions += static_cast<int64_t>(todo.size());
  // Also bounds the tables below by the size of the lists.
  SXT_CHECK(actions >= int64_t{schedule.stages} * schedule.micros, Config, schedule.name, ": ",
            actions, " actions in all for ", schedule.stages, " stages and ", schedule.micros,
            " micros; each stage needs at least an F and a B for each micro");
  switch (schedule.placement) {
    case Placement::Loop:
      SXT_CHECK(schedule.stages % ranks == 0, Config, schedule.name, ": ", schedule.stages,
                " stages on ", ranks, " ranks; they have to be a multiple of the ranks");
      break;
    case Placement::V:
      SXT_CHECK(schedule.stages == 2 * ranks, Config, schedule.name, ": ", schedule.stages,
                " stages on ", ranks, " ranks as a V; it has two a rank, ", 2 * ranks);
      break;
    case Placement::Dual:
      SXT_CHECK(schedule.stages == ranks && ranks % 2 == 0 && schedule.micros % 2 == 0, Config,
                schedule.name, ": ", schedule.stages, " stages and ", schedule.micros,
                " micros on ", ranks,
                " ranks in two directions; it needs a stage a rank, and even ranks and micros");
      break;
  }
}

void check_joined(const Schedule& schedule, int rank, size_t at) {
  const std::vector<Action>& todo = schedule.ranks[rank];
  if (!todo[at].joined) return;
  SXT_CHECK(todo[at].kind == Kind::F && at + 1 < todo.size() && !todo[at + 1].joined &&
                (todo[at + 1].kind == Kind::B || todo[at + 1].kind == Kind::I),
            Config, place(schedule, rank, at),
            " is joined; only an F can be, to the backward that follows it");
}

// A send or receive between stages that exchange no message.
bool is_needless(const Schedule& schedule, const Action& action) {
  switch (action.kind) {
    case Kind::SendF:
      return !crosses(schedule, {Kind::F, action.stage, action.micro});
    case Kind::SendB:
      return !crosses(schedule, {Kind::B, action.stage, action.micro});
    case Kind::RecvF:
      return action.stage == 0 || !crosses(schedule, {Kind::F, action.stage - 1, action.micro});
    case Kind::RecvB:
      return action.stage + 1 == schedule.stages ||
             !crosses(schedule, {Kind::B, action.stage + 1, action.micro});
    default:
      return false;
  }
}

void check_action(const Schedule& schedule, int rank, size_t at, Done& seen) {
  const Action& action = schedule.ranks[rank][at];
  const auto where = [&] { return place(schedule, rank, at); };
  SXT_CHECK(action.stage >= 0 && action.stage < schedule.stages, Config, where(),
            ": stages are 0 ... ", schedule.stages - 1);
  SXT_CHECK(action.micro >= 0 && action.micro < schedule.micros, Config, where(),
            ": micros are 0 ... ", schedule.micros - 1);
  const int holder = schedule.rank_of(action.stage, action.micro);
  SXT_CHECK(holder == rank, Config, where(), " belongs on rank ", holder);
  check_joined(schedule, rank, at);
  SXT_CHECK(!seen.has(action.stage, action.micro, bit(action.kind)), Config, where(),
            " comes twice");
  SXT_CHECK(!is_needless(schedule, action), Config, where(), ": no other rank is at its other end");
  seen.add(action);
}

void check_missing(const Schedule& schedule, const Done& seen, Action action) {
  SXT_CHECK(seen.has(action.stage, action.micro, bit(action.kind)), Config, schedule.name,
            ": rank ", schedule.rank_of(action.stage, action.micro), " lacks ", describe(action));
}

void check_complete(const Schedule& schedule, const Done& seen, Receives receives) {
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (int micro = 0; micro < schedule.micros; ++micro) {
      const auto need = [&](Kind kind, int s) { check_missing(schedule, seen, {kind, s, micro}); };
      need(Kind::F, stage);
      const bool whole = seen.has(stage, micro, bit(Kind::B));
      const bool split = seen.has(stage, micro, bit(Kind::I) | bit(Kind::W));
      SXT_CHECK(whole || split, Config, schedule.name, ": rank ", schedule.rank_of(stage, micro),
                " lacks the backward of stage ", stage, ", micro ", micro);
      SXT_CHECK(!whole || !split, Config, schedule.name, ": rank ", schedule.rank_of(stage, micro),
                " has both B and a half of it, of stage ", stage, ", micro ", micro);
      if (split) need(Kind::I, stage), need(Kind::W, stage);
      if (receives == Receives::Implied) continue;
      if (crosses(schedule, {Kind::F, stage, micro}))
        need(Kind::SendF, stage), need(Kind::RecvF, stage + 1);
      if (crosses(schedule, {Kind::B, stage, micro}))
        need(Kind::SendB, stage), need(Kind::RecvB, stage - 1);
    }
}

// Simulates the schedule: advances each rank as far as possible until none can move.
class Run {
 public:
  Run(const Schedule& schedule, Receives receives)
      : schedule_(schedule),
        receives_(receives),
        done_(schedule),
        next_(schedule.ranks.size(), 0) {}

  void check() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < schedule_.size(); ++rank)
        while (step(rank)) moved = true;
    }
    for (int rank = 0; rank < schedule_.size(); ++rank)
      if (is_stuck(rank)) fail();
  }

 private:
  const Need* missing(const std::vector<Action>& todo, size_t at) {
    for (size_t i = at; i < at + block_size(todo, at); ++i) {
      needs_ = needs_of(schedule_, todo[i], receives_);
      for (const Need& need : needs_)
        if (!done_.meets(need)) return &need;
    }
    return nullptr;
  }

  bool step(int rank) {
    const std::vector<Action>& todo = schedule_.ranks[rank];
    const size_t at = next_[rank];
    if (at == todo.size() || missing(todo, at)) return false;
    next_[rank] += block_size(todo, at);
    for (size_t i = at; i < next_[rank]; ++i)
      if (is_compute(todo[i].kind) || is_comm(todo[i].kind)) done_.add(todo[i]);
    return true;
  }

  // A rank that depends on itself is the cause; the others may only be waiting for it.
  [[noreturn]] void fail() {
    int rank = -1;
    for (int r = schedule_.size() - 1; r >= 0; --r)
      if (is_stuck(r) && (rank < 0 || maker(r) == r || maker(rank) != rank)) rank = r;
    const Need need = *missing(schedule_.ranks[rank], next_[rank]);
    int kind = 0;
    while (!(need.any_of & (1 << kind))) ++kind;
    const Action awaited = {static_cast<Kind>(kind), need.stage, need.micro};
    const std::string whose = maker(rank) == rank
                                  ? "which comes later on the same rank"
                                  : concat("on rank ", maker(rank), ", which waits itself");
    SXT_FAIL(Config, place(schedule_, rank, next_[rank]), " waits forever for ", describe(awaited),
             ", ", whose);
  }
  bool is_stuck(int rank) const { return next_[rank] < schedule_.ranks[rank].size(); }
  // The rank that should produce what `rank` is waiting for.
  int maker(int rank) {
    const Need* need = missing(schedule_.ranks[rank], next_[rank]);
    return schedule_.rank_of(need->stage, need->micro);
  }

  const Schedule& schedule_;
  Receives receives_;
  Done done_;
  std::array<Need, 2> needs_;
  std::vector<size_t> next_;
};

}  // namespace

void validate(const Schedule& schedule) {
  check_form(schedule);
  Receives receives = Receives::Implied;
  Done seen(schedule);
  for (int rank = 0; rank < schedule.size(); ++rank) {
    for (size_t at = 0; at < schedule.ranks[rank].size(); ++at) {
      check_action(schedule, rank, at, seen);
      if (is_comm(schedule.ranks[rank][at].kind)) receives = Receives::Listed;
    }
  }
  check_complete(schedule, seen, receives);
  Run(schedule, receives).check();
  check_channels(schedule);
}

void check_memory(const Schedule& schedule, std::span<const StageCost> costs, double limit) {
  const std::vector<double> peaks = peak_memory(schedule, costs);
  for (size_t rank = 0; rank < peaks.size(); ++rank)
    SXT_CHECK(peaks[rank] <= limit * (1 + 1e-9), Config, schedule.name, ": rank ", rank, " holds ",
              peaks[rank], " at its peak, above the memory limit ", limit);
}

}  // namespace sextant
