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
    return a.forward >= b.forward && a.halves >= b.halves && a.heads >= b.heads &&
           a.waiting >= b.waiting;
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
    out[place] = {{held, 0, has_head ? heads : 0, 0}};
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
    std::vector<HeldPasses>& most = out[rank == 0 ? 0 : rank == schedule.size() - 1 ? 2 : 1];
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
      double chunks = 0;
      for (const auto& [chunk, count] : waiting) chunks += count > 0;
      now.waiting = chunks / schedule.chunks();
      // One pass grows by layers while the other one shrinks.
      if (!action.joined) keep_largest(most, now);
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

std::vector<StageCost> relative_costs(const Case& asked) {
  const Layout& l = asked.layout;
  if (l.schedule != ScheduleKind::ZbV) return {StageCost{}};
  // The first and the last stage are on the first rank.
  const StageLayers layers = stage_layers(asked);
  const double each = layers.middle / 2, hidden = static_cast<double>(asked.shape.hidden);
  const double seq = static_cast<double>(asked.shape.seq);
  const Parameters counts = count_parameters(asked.shape);
  const double block = (counts.active - counts.head) / static_cast<double>(asked.shape.layers) +
                       seq * static_cast<double>(asked.shape.heads * asked.shape.head_dim);
  const double head = static_cast<double>(asked.shape.vocab) * hidden / block;
  std::vector<StageCost> out(static_cast<size_t>(l.stages()), {each, each, each});
  const double last = std::max(layers.first - each, 0.0) + head;
  out.back() = {last, last, last};
  return out;
}

ScheduleHeld held_passes(const Layout& layout, int64_t micros,
                         const std::vector<StageCost>& costs) {
  micros = std::max<int64_t>(micros, 1);
  if (layout.pp == 1 || !splits_backward(layout.schedule)) return by_formula(layout, micros);
  ScheduleRequest request;
  request.name = name_of(layout.schedule);
  request.ranks = layout.pp;
  request.micros = static_cast<int>(telling_micros(layout, micros));
  request.chunks = layout.chunks;
  request.costs = costs;
  if (layout.schedule == ScheduleKind::InterleavedZb)
    request.micro_group = smallest_micro_group(request.ranks, request.micros);
  try {
    return held_passes(make_schedule(request));
  } catch (const Error&) {
    return by_formula(layout, micros);
  }
}

}  // namespace sextant
