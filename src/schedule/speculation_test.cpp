#include "schedule/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "schedule/add_comms.h"
#include "schedule/make_schedule.h"
#include "schedule/print.h"
#include "schedule/schedule_csv.h"

namespace sextant {
namespace {

Schedule schedule_of(const std::string& name, int ranks, int micros, int chunks = 1) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.micros = micros;
  request.chunks = chunks;
  return add_comms(make_schedule(request));
}

std::string text(const std::vector<Action>& actions) {
  std::string out;
  for (const Action& action : actions) out += (out.empty() ? "" : "; ") + describe(action);
  return out;
}

TEST(Speculation, EndsBeforeTheFirstBackwardOrTheForwardJoinedWithIt) {
  EXPECT_EQ(first_backward({{Kind::F, 0, 0}, {Kind::B, 0, 0}}), 1u);
  EXPECT_EQ(first_backward({{Kind::F, 0, 0}, {Kind::I, 0, 0}}), 1u);
  EXPECT_EQ(first_backward({{Kind::F, 0, 0}, {Kind::F, 0, 1, true}, {Kind::B, 0, 0}}), 1u);
  EXPECT_EQ(first_backward({{Kind::F, 0, 0}}), 1u);
}

// Rank 0 sends a forward that rank 1 receives only after its first backward, and receives a
// gradient that rank 1 sends only then.
TEST(Speculation, LeavesOpenWhatOneEndHasInItsBeginningAndTheOtherHasNot) {
  const auto make = [](Kind kind, int stage, int micro) { return Action{kind, stage, micro}; };
  const Schedule schedule{
      "x",
      2,
      2,
      Placement::Loop,
      {{make(Kind::F, 0, 0), make(Kind::SendF, 0, 0), make(Kind::F, 0, 1), make(Kind::SendF, 0, 1),
        make(Kind::RecvB, 0, 0), make(Kind::B, 0, 0), make(Kind::RecvB, 0, 1), make(Kind::B, 0, 1)},
       {make(Kind::RecvF, 1, 0), make(Kind::F, 1, 0), make(Kind::B, 1, 0), make(Kind::SendB, 1, 0),
        make(Kind::RecvF, 1, 1), make(Kind::F, 1, 1), make(Kind::B, 1, 1),
        make(Kind::SendB, 1, 1)}}};
  EXPECT_EQ(unmatched_messages(schedule, 1).to_receive,
            std::vector<Action>{make(Kind::SendF, 0, 1)});
  EXPECT_EQ(unmatched_messages(schedule, 1).to_send, std::vector<Action>{make(Kind::RecvB, 0, 0)});
  EXPECT_TRUE(unmatched_messages(schedule, 0).to_receive.empty());
  EXPECT_TRUE(unmatched_messages(schedule, 0).to_send.empty());
}

// Rank 0 holds the last stage and runs a backward before the second micro-batch; rank 1 receives
// that micro-batch before its first backward, so rank 0 owes it a forward.
TEST(Speculation, OwesForwardsThatTheOtherRankHasAskedFor) {
  const Schedule schedule =
      add_comms(read_schedule_csv("name=x,stages=4,micros=2,placement=v\n"
                                  "0F0,3F0,3B0,0F1,3F1,3B1,0B0,0B1\n"
                                  "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n",
                                  "x.csv"));
  const std::vector<Action> owed = unmatched_messages(schedule, 0).to_send;
  EXPECT_EQ(std::count(owed.begin(), owed.end(), Action{Kind::RecvF, 1, 1}), 1);
}

TEST(Speculation, OfGpipeLeavesNoForwardMessageOpen) {
  const Schedule schedule = schedule_of("gpipe", 2, 3);
  EXPECT_EQ(text(unmatched_messages(schedule, 1).to_receive), "");
  EXPECT_EQ(text(unmatched_messages(schedule, 1).to_send), describe({Kind::RecvB, 0, 0}));
}

// With the loose ends, both ends of every channel have sent and received equally many.
TEST(Speculation, BalancesEveryChannelOfEverySchedule) {
  for (const auto& [name, chunks] : std::vector<std::pair<std::string, int>>{{"gpipe", 1},
                                                                             {"1f1b", 1},
                                                                             {"interleaved", 2},
                                                                             {"looped-bfs", 2},
                                                                             {"zb-h1", 1},
                                                                             {"zb-h2", 1},
                                                                             {"interleaved-zb", 2},
                                                                             {"zb-v", 2},
                                                                             {"v-half", 2},
                                                                             {"v-min", 2},
                                                                             {"dualpipe", 2},
                                                                             {"dualpipe-v", 2}}) {
    for (const int ranks : {2, 4}) {
      const Schedule schedule = schedule_of(name, ranks, 4 * ranks, chunks);
      std::map<std::tuple<int, int, bool>, int> sent, taken;  // from, to, forward
      const auto count = [&](int rank, const Action& action, int owner) {
        const bool forward = action.kind == Kind::SendF || action.kind == Kind::RecvF;
        const bool sends = action.kind == Kind::SendF || action.kind == Kind::SendB;
        const int there =
            schedule.rank_of(action.stage + (forward == sends ? 1 : -1), action.micro);
        if (owner == rank)
          ++(sends ? sent[{rank, there, forward}] : taken[{there, rank, forward}]);
        else  // the other end supplies the missing action
          ++(sends ? taken[{owner, rank, forward}] : sent[{rank, owner, forward}]);
      };
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<Action>& actions = schedule.ranks[static_cast<size_t>(rank)];
        for (size_t i = 0; i < first_backward(actions); ++i)
          if (actions[i].kind > Kind::W) count(rank, actions[i], rank);
        const UnmatchedMessages ends = unmatched_messages(schedule, rank);
        for (const std::vector<Action>& some : {ends.to_send, ends.to_receive})
          for (const Action& action : some)
            count(rank, action, schedule.rank_of(action.stage, action.micro));
      }
      EXPECT_EQ(sent, taken) << name << " on " << ranks;
    }
  }
}

}  // namespace
}  // namespace sextant
