#include "schedule/dependencies.h"

namespace sextant {
namespace {

const uint16_t kBackward = bit(Kind::B) | bit(Kind::I);

// What a stage needs from its neighbour `from`: an output of the same rank, or a receive.
Need input(const Schedule& schedule, const Action& action, int from, uint16_t made, Kind receive,
           Receives receives) {
  if (from < 0 || from == schedule.stages) return {};
  const bool local =
      schedule.rank_of(from, action.micro) == schedule.rank_of(action.stage, action.micro);
  if (local || receives == Receives::Implied) return {from, action.micro, made};
  return {action.stage, action.micro, bit(receive)};
}

}  // namespace

std::array<Need, 2> needs_of(const Schedule& schedule, const Action& action, Receives receives) {
  const auto own = [&](uint16_t any_of) { return Need{action.stage, action.micro, any_of}; };
  const int before = action.stage - 1, after = action.stage + 1;
  switch (action.kind) {
    case Kind::F:
      return {input(schedule, action, before, bit(Kind::F), Kind::RecvF, receives), Need{}};
    case Kind::B:
    case Kind::I:
      return {own(bit(Kind::F)), input(schedule, action, after, kBackward, Kind::RecvB, receives)};
    case Kind::W:
      return {own(bit(Kind::I)), Need{}};
    case Kind::SendF:
      return {own(bit(Kind::F)), Need{}};
    case Kind::SendB:
      return {own(kBackward), Need{}};
    case Kind::RecvF:
      return {Need{before, action.micro, bit(Kind::SendF)}, Need{}};
    case Kind::RecvB:
      return {Need{after, action.micro, bit(Kind::SendB)}, Need{}};
  }
  return {};
}

int consumer(const Schedule& schedule, Kind kind, int stage) {
  if (kind == Kind::F) return stage + 1 < schedule.stages ? stage + 1 : -1;
  if (kind == Kind::B || kind == Kind::I) return stage - 1;
  return -1;
}

bool crosses(const Schedule& schedule, const Action& action) {
  const int to = consumer(schedule, action.kind, action.stage);
  return to >= 0 &&
         schedule.rank_of(to, action.micro) != schedule.rank_of(action.stage, action.micro);
}

size_t block_size(const std::vector<Action>& todo, size_t at) {
  return todo[at].joined && at + 1 < todo.size() ? 2 : 1;
}

}  // namespace sextant
