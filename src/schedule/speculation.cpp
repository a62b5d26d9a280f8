#include "schedule/speculation.h"

#include <set>
#include <span>
#include <utility>

#include "schedule/dependencies.h"

namespace sextant {
namespace {

bool is_send(Kind kind) {
  return kind == Kind::SendF || kind == Kind::SendB;
}
bool is_forward(Kind kind) {
  return kind == Kind::SendF || kind == Kind::RecvF;
}

// The peer rank of a send or receive.
int other_end(const Schedule& schedule, const Action& action) {
  const int step = is_send(action.kind) == is_forward(action.kind) ? 1 : -1;
  return schedule.rank_of(action.stage + step, action.micro);
}

// Sends or receives of `rank` before its first backward, to or from `other`.
std::vector<Action> messages(const Schedule& schedule, int rank, int other, Kind kind) {
  const std::vector<Action>& actions = schedule.ranks[static_cast<size_t>(rank)];
  std::vector<Action> out;
  for (const Action& action : std::span(actions).first(first_backward(actions)))
    if (action.kind == kind && other_end(schedule, action) == other) out.push_back(action);
  return out;
}

// Appends the messages that the other rank has beyond `own`.
void add_surplus(std::vector<Action>& to, const std::vector<Action>& others, size_t own) {
  for (size_t i = own; i < others.size(); ++i) to.push_back(others[i]);
}

}  // namespace

size_t first_backward(const std::vector<Action>& actions) {
  for (size_t at = 0; at < actions.size(); at += block_size(actions, at))
    for (size_t i = at; i < at + block_size(actions, at); ++i)
      if (actions[i].kind == Kind::B || actions[i].kind == Kind::I) return at;
  return actions.size();
}

UnmatchedMessages unmatched_messages(const Schedule& schedule, int rank) {
  std::set<int> peers;
  for (const Action& action : schedule.ranks[static_cast<size_t>(rank)])
    if (is_comm(action.kind)) peers.insert(other_end(schedule, action));
  UnmatchedMessages ends;
  for (const int other : peers) {
    for (const auto& [send, receive] :
         {std::pair(Kind::SendF, Kind::RecvF), std::pair(Kind::SendB, Kind::RecvB)}) {
      add_surplus(ends.to_send, messages(schedule, other, rank, receive),
                  messages(schedule, rank, other, send).size());
      add_surplus(ends.to_receive, messages(schedule, other, rank, send),
                  messages(schedule, rank, other, receive).size());
    }
  }
  return ends;
}

}  // namespace sextant
