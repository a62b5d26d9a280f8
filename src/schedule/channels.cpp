#include "schedule/channels.h"

#include <map>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "schedule/dependencies.h"
#include "schedule/print.h"

namespace sextant {
namespace {

// A message of a channel: the send or receive, or the action that makes or uses its data.
struct Item {
  Action action;
  int stage;  // of the sender, equal at both ends
};
using Channel = std::tuple<int, int, bool>;  // from rank, to rank, forward
using Ends = std::map<Channel, std::vector<Item>>;

Channel channel_of(const Schedule& schedule, bool forward, int from_stage, int micro) {
  const int to_stage = forward ? from_stage + 1 : from_stage - 1;
  return {schedule.rank_of(from_stage, micro), schedule.rank_of(to_stage, micro), forward};
}

// Appends `at` to its channel if the output of `maker` (F or a backward) goes to another rank.
void add(const Schedule& schedule, Ends& ends, const Action& at, Action maker) {
  if (maker.stage < 0 || maker.stage == schedule.stages || !crosses(schedule, maker)) return;
  const bool forward = maker.kind == Kind::F;
  ends[channel_of(schedule, forward, maker.stage, maker.micro)].push_back({at, maker.stage});
}

void compare(const Schedule& schedule, const Ends& first, const Ends& second, const char* verb) {
  for (const auto& [channel, made] : first) {
    const std::vector<Item>& used = second.at(channel);
    for (size_t i = 0; i < made.size(); ++i)
      SXT_CHECK(made[i].stage == used[i].stage && made[i].action.micro == used[i].action.micro,
                Config, schedule.name, ": rank ", std::get<1>(channel), " has ",
                describe(used[i].action), " where rank ", std::get<0>(channel), " ", verb, " ",
                describe(made[i].action), "; both ends of a channel need one order");
  }
}

}  // namespace

void check_channels(const Schedule& schedule) {
  Ends made, used, sent, received;
  for (const std::vector<Action>& todo : schedule.ranks)
    for (const Action& action : todo) {
      const auto maker = [&](Kind kind, int stage) { return Action{kind, stage, action.micro}; };
      const int before = action.stage - 1, after = action.stage + 1;
      switch (action.kind) {
        case Kind::F:
          add(schedule, made, action, action);
          add(schedule, used, action, maker(Kind::F, before));
          break;
        case Kind::B:
        case Kind::I:
          add(schedule, made, action, action);
          add(schedule, used, action, maker(Kind::B, after));
          break;
        case Kind::SendF:
          add(schedule, sent, action, maker(Kind::F, action.stage));
          break;
        case Kind::SendB:
          add(schedule, sent, action, maker(Kind::B, action.stage));
          break;
        case Kind::RecvF:
          add(schedule, received, action, maker(Kind::F, before));
          break;
        case Kind::RecvB:
          add(schedule, received, action, maker(Kind::B, after));
          break;
        default:
          break;
      }
    }
  compare(schedule, made, used, "makes");
  compare(schedule, sent, received, "sends");
}

}  // namespace sextant
