#include "schedule/add_comms.h"

#include <gtest/gtest.h>

#include "schedule/generators.h"
#include "schedule/schedule_csv.h"
#include "schedule/validate.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

int count(const Schedule& schedule, Kind kind) {
  int out = 0;
  for (const std::vector<Action>& todo : schedule.ranks)
    for (const Action& action : todo) out += action.kind == kind;
  return out;
}

TEST(AddComms, PutsASendAfterItsActionAndTheReceiveBeforeItsUse) {
  EXPECT_EQ(write_schedule_csv(add_comms(one_f_one_b(2, 2))),
            "name=1f1b,stages=2,micros=2,placement=loop\n"
            "0F0,0SendF0,0F1,0SendF1,0RecvB0,0B0,0RecvB1,0B1\n"
            "1RecvF0,1F0,1RecvF1,1B0,1SendB0,1F1,1B1,1SendB1\n");
}

TEST(AddComms, SendsNothingAtTheTurnOfAV) {
  const Schedule schedule = add_comms(zb_v(3, 5));
  // 6 stages have 5 boundaries; the one inside the last rank needs no message.
  for (const Kind kind : {Kind::SendF, Kind::RecvF, Kind::SendB, Kind::RecvB})
    EXPECT_EQ(count(schedule, kind), 4 * 5);
  const Schedule alone = add_comms(zb_v(1, 5));
  EXPECT_EQ(alone.ranks, zb_v(1, 5).ranks);
}

TEST(AddComms, WrapsAroundFromTheLastRankToTheFirst) {
  const Schedule schedule = add_comms(interleaved(2, 2, 2, 2));
  EXPECT_EQ(count(schedule, Kind::SendF), 3 * 2);
  EXPECT_EQ(count(schedule, Kind::SendB), 3 * 2);
  validate(schedule);
}

TEST(AddComms, KeepsJoinedActionsTogether) {
  const Schedule schedule = add_comms(dualpipe(4, 8));
  validate(schedule);
  int joined = 0;
  for (const std::vector<Action>& todo : schedule.ranks)
    for (size_t i = 0; i < todo.size(); ++i)
      if (todo[i].joined) {
        ++joined;
        EXPECT_EQ(todo[i + 1].kind, Kind::B);
      }
  EXPECT_GT(joined, 0);
}

TEST(AddComms, RefusesWhatCannotAdvance) {
  Schedule schedule = one_f_one_b(2, 1);
  std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);
  EXPECT_ERROR(add_comms(schedule), Config,
               "1f1b: ranks wait for each other; rank 0 cannot get past B of stage 0, micro 0");
}

TEST(AddComms, RefusesToSendTwice) {
  EXPECT_ERROR(add_comms(add_comms(one_f_one_b(2, 1))), Config,
               "1f1b: rank 0 has SendF of stage 0, micro 0 already");
}

}  // namespace
}  // namespace sextant
