#include "plan/held_passes.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "plan/memory.h"
#include "schedule/make_schedule.h"

namespace sextant {
namespace {

constexpr int64_t kTurns = 3;  // times the ranks: by then the fullest time has come

void keep_largest(std::vector<HeldPasses>& most, const HeldPasses& now) {
  const auto covers = [](const HeldPasses& a, const HeldPasses& b) {
    return a.forward >= b.forward && a.halves >= b.halves && a.heads >= b.heads;
  };
  for (const HeldPasses& one : most)
    if (covers(one, now)) return;
  std::erase_if(most, [&](const HeldPasses& one) { return covers(now, one); });
  most.push_back(now);
}

bool grows_with_micros(ScheduleKind kind) {
  return kind == ScheduleKind::Gpipe || kind == ScheduleKind::LoopedBfs;
}

// Where the schedule does not exist for these numbers, or nothing is to be asked of it.
ScheduleHeld by_formula(const Layout& layout, int64_t micros) {
  ScheduleHeld out;
  const int last = layout.pp - 1, ranks[] = {0, std::min(1, last), last};
  for (size_t place = 0; place < out.size(); ++place) {
    const double held = in_flight(layout, micros, ranks[place]);
    const bool has_head = ranks[place] == (is_v_shaped(layout.schedule) ? 0 : last) ||
                          layout.schedule == ScheduleKind::DualPipe;
    const double heads = grows_with_micros(layout.schedule) ? held : 1;
    out[place] = {{{held, 0, has_head ? heads : 0}}, 0};
  }
  return out;
}

}  // namespace

bool splits_backward(ScheduleKind kind) {
  return kind >= ScheduleKind::ZbH1;
}

ScheduleHeld held_passes(const Schedule& schedule) {
  ScheduleHeld out;
  const double share = schedule.placement == Placement::Dual ? 1 : 1.0 / schedule.chunks();
  for (int rank = 0; rank < schedule.size(); ++rank) {
    RankHeld& held = out[rank == 0 ? 0 : rank == schedule.size() - 1 ? 2 : 1];
    HeldPasses now;
    std::map<int, int> waiting;  // weight gradients, by chunk
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
      const double head = action.stage == schedule.stages - 1;
      switch (action.kind) {
        case Kind::F:
          now.forward += share;
          now.heads += head;
          break;
        case Kind::I:
          now.forward -= share;
          now.halves += share;
          ++waiting[schedule.chunk_of(action.stage, action.micro)];
          break;
        case Kind::B:
          now.forward -= share;
          now.heads -= head;
          break;
        case Kind::W:
          now.halves -= share;
          now.heads -= head;
          --waiting[schedule.chunk_of(action.stage, action.micro)];
          break;
        default:
          break;
      }
      // One pass grows by layers while the other one shrinks.
      if (!action.joined) keep_largest(held.most, now);
      double chunks = 0;
      for (const auto& [chunk, count] : waiting) chunks += count > 0;
      held.waiting = std::max(held.waiting, chunks / schedule.chunks());
    }
  }
  if (schedule.size() == 1) out[1] = out[2] = out[0];
  if (schedule.size() == 2) out[1] = out[0];
  return out;
}

int64_t telling_micros(const Layout& layout, int64_t micros) {
  const int64_t p = layout.pp;
  const bool has_groups = layout.schedule == ScheduleKind::InterleavedZb && micros % p != 0;
  return micros <= (kTurns + 1) * p || grows_with_micros(layout.schedule) || has_groups
             ? micros
             : kTurns * p + micros % p;
}

ScheduleHeld held_passes(const Layout& layout, int64_t micros) {
  micros = std::max<int64_t>(micros, 1);
  if (layout.pp == 1 || !splits_backward(layout.schedule)) return by_formula(layout, micros);
  ScheduleRequest request;
  request.name = name_of(layout.schedule);
  request.ranks = layout.pp;
  request.micros = static_cast<int>(telling_micros(layout, micros));
  request.chunks = layout.chunks;
  if (layout.schedule == ScheduleKind::InterleavedZb)
    request.micro_group = smallest_micro_group(request.ranks, request.micros);
  try {
    return held_passes(make_schedule(request));
  } catch (const Error&) {
    return by_formula(layout, micros);
  }
}

}  // namespace sextant
