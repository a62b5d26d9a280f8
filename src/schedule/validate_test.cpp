#include "schedule/validate.h"

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "schedule/add_comms.h"
#include "schedule/generators.h"
#include "schedule/make_schedule.h"
#include "schedule/print.h"
#include "support/counts.h"
#include "support/expect_error.h"
#include "support/schedule_judge.h"
#include "support/schedule_oracle.h"

namespace sextant {
namespace {

// Consecutive random draws of one test case.
class Draws {
 public:
  Draws(const char* name, int number) : random_(11, name), number_(number) {}
  int below(int bound) {
    return static_cast<int>(random_.below(static_cast<uint64_t>(bound), number_, next_++));
  }
  int between(int low, int high) { return low + below(high - low + 1); }

 private:
  Random random_;
  uint64_t number_;
  uint32_t next_ = 0;
};

// A random valid request with at most `ranks` ranks and `micros` micros.
ScheduleRequest random_request(Draws& draw, int ranks, int micros) {
  const std::vector<std::string> names = schedule_names();
  ScheduleRequest request;
  request.name = names[draw.below(static_cast<int>(names.size()))];
  request.ranks = draw.between(2, ranks);
  request.micros = draw.between(1, micros);
  request.message_time = draw.below(3);
  request.costs = {{1.0 + draw.below(9), 1.0 + draw.below(9), 1.0 + draw.below(9)}};
  const int p = request.ranks;
  if (request.name.starts_with("interleaved")) {
    request.chunks = draw.between(1, 4);
    request.micros = std::max(request.micros, p);
    do {
      request.micro_group = draw.between(p, request.micros);
    } while (request.micros % request.micro_group != 0 && request.micros % request.micro_group < p);
  } else if (request.name == "looped-bfs") {
    request.chunks = draw.between(1, 4);
  } else if (request.name.starts_with("dualpipe")) {
    request.ranks = p + p % 2;
    request.micros = std::max(request.micros + request.micros % 2, 2 * request.ranks);
  } else if ((request.name == "zb-auto" || request.name == "zb-v") && draw.below(2) == 0) {
    request.costs.clear();  // one per stage
    for (int stage = 0; stage < (request.name == "zb-v" ? 2 * p : p); ++stage)
      request.costs.push_back(
          {1.0 + draw.below(9), 1.0 + draw.below(9), 1.0 + draw.below(9), 1, draw.below(5) / 4.0});
  }
  return request;
}

// The error message of validate; empty when the schedule is valid.
std::string refusal(const Schedule& schedule) {
  try {
    validate(schedule);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    return error.what();
  }
  return "";
}

TEST(Validate, AcceptsEveryGeneratedScheduleWithAndWithoutMessages) {
  const int cases = random_cases(300, 6000);
  std::set<std::string> seen;
  for (int i = 0; i < cases; ++i) {
    Draws draw("schedules", i);
    const ScheduleRequest request = random_request(draw, 16, 64);
    const Schedule schedule = make_schedule(request);
    const Schedule full = add_comms(schedule);
    const std::string about = concat(request.name, " p=", request.ranks, " m=", request.micros,
                                     " v=", request.chunks, " group=", request.micro_group);
    EXPECT_EQ(refusal(schedule), "") << about;
    EXPECT_EQ(refusal(full), "") << about;
    if (i % 4 == 0) {
      EXPECT_TRUE(run_oracle(schedule).finished) << about;
    }
    seen.insert(request.name);
  }
  EXPECT_EQ(seen.size(), schedule_names().size());
}

struct Mutant {
  Schedule schedule;
  int rank;
  size_t at;
};

Mutant random_place(Draws& draw, Schedule schedule) {
  const int rank = draw.below(schedule.size());
  const size_t at = static_cast<size_t>(draw.below(static_cast<int>(schedule.ranks[rank].size())));
  return {std::move(schedule), rank, at};
}

Schedule random_small(Draws& draw) {
  const Schedule schedule = make_schedule(random_request(draw, 6, 12));
  return draw.below(2) == 0 ? schedule : add_comms(schedule);
}

TEST(Validate, RefusesADroppedActionAndNamesIt) {
  const int cases = random_cases(400, 10000);
  for (int i = 0; i < cases; ++i) {
    Draws draw("drop", i);
    auto [schedule, rank, at] = random_place(draw, random_small(draw));
    const Action dropped = schedule.ranks[rank][at];
    schedule.ranks[rank].erase(schedule.ranks[rank].begin() + static_cast<int>(at));
    const std::string why = refusal(schedule);
    const bool names_it = why.find(concat("rank ", rank, " lacks")) != std::string::npos &&
                          why.find(concat("of stage ", dropped.stage, ", micro ", dropped.micro)) !=
                              std::string::npos;
    // The action joined with the missing forward is reported first.
    const bool names_block =
        why.find(concat("rank ", rank, ", action ", at)) != std::string::npos &&
        why.find("is joined") != std::string::npos;
    EXPECT_TRUE(names_it || names_block)
        << schedule.name << " without " << describe(dropped) << " on rank " << rank << ": " << why;
  }
}

TEST(Validate, RefusesADuplicatedActionAndNamesIt) {
  const int cases = random_cases(400, 10000);
  for (int i = 0; i < cases; ++i) {
    Draws draw("duplicate", i);
    auto [schedule, rank, at] = random_place(draw, random_small(draw));
    std::vector<Action>& todo = schedule.ranks[rank];
    Action again = todo[at];
    again.joined = false;
    size_t to = static_cast<size_t>(draw.below(static_cast<int>(todo.size()) + 1));
    if (to > 0 && todo[to - 1].joined) --to;  // keep joined blocks together
    todo.insert(todo.begin() + static_cast<int>(to), again);
    const std::string why = refusal(schedule);
    EXPECT_NE(why.find(concat("rank ", rank, ", action ")), std::string::npos) << why;
    EXPECT_NE(why.find(describe(again) + ") comes twice"), std::string::npos) << why;
  }
}

TEST(Validate, RefusesASwapExactlyWhenItBreaksAnOrder) {
  const int cases = random_cases(400, 10000);
  int refused = 0;
  for (int i = 0; i < cases; ++i) {
    Draws draw("swap", i);
    Schedule whole = random_small(draw);
    for (std::vector<Action>& todo : whole.ranks)
      for (Action& action : todo) action.joined = false;
    auto [schedule, rank, at] = random_place(draw, std::move(whole));
    std::vector<Action>& todo = schedule.ranks[rank];
    const int last = static_cast<int>(todo.size()) - 1;
    // Half of them are neighbours: the mildest change.
    const int other =
        draw.below(2) == 0 ? draw.below(last + 1) : std::min(static_cast<int>(at) + 1, last);
    std::swap(todo[at], todo[other]);
    const std::string why = refusal(schedule);
    EXPECT_EQ(why.empty(), Judge(schedule).accepts())
        << schedule.name << ", rank " << rank << ": actions " << at + 1 << " and " << other + 1
        << " swapped: " << why;
    if (why.empty()) continue;
    ++refused;
    EXPECT_NE(why.find("rank "), std::string::npos) << why;
    EXPECT_NE(why.find(" of stage "), std::string::npos) << why;
  }
  EXPECT_GT(refused, cases / 3);
}

Schedule base() {
  return one_f_one_b(2, 2);  // F0 F1 B0 B1, F0 B0 F1 B1
}

TEST(Validate, SaysWhyRanksWouldWaitForever) {
  Schedule schedule = base();
  std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);
  EXPECT_ERROR(validate(schedule), Config,
               "1f1b: rank 1, action 1 (B of stage 1, micro 0) waits forever for F of stage 1, "
               "micro 0, which comes later on the same rank");
  // Deadlock: rank 0 does not send F1 before B0, rank 1 does not send B0 before F1.
  schedule = base();
  std::swap(schedule.ranks[0][1], schedule.ranks[0][2]);
  std::swap(schedule.ranks[1][1], schedule.ranks[1][2]);
  EXPECT_ERROR(validate(schedule), Config,
               "1f1b: rank 0, action 2 (B of stage 0, micro 0) waits forever for B of stage 1, "
               "micro 0, on rank 1, which waits itself");
}

TEST(Validate, WantsOneOrderAtBothEndsOfAChannel) {
  Schedule schedule = gpipe(2, 2);
  std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);
  EXPECT_ERROR(validate(schedule), Config,
               "gpipe: rank 1 has F of stage 1, micro 1 where rank 0 makes F of stage 0, micro 0; "
               "both ends of a channel need one order");
  schedule = add_comms(gpipe(2, 2));
  // 1RecvF0 1F0 1RecvF1 1F1 ...: both receives first, in the wrong order.
  schedule.ranks[1].erase(schedule.ranks[1].begin() + 2);
  schedule.ranks[1].insert(schedule.ranks[1].begin(), {Kind::RecvF, 1, 1});
  EXPECT_ERROR(validate(schedule), Config,
               "gpipe: rank 1 has RecvF of stage 1, micro 1 where rank 0 sends SendF of stage 0, "
               "micro 0");
}

TEST(Validate, RefusesActionsOutOfPlace) {
  Schedule schedule = base();
  std::swap(schedule.ranks[0][0], schedule.ranks[1][0]);
  EXPECT_ERROR(validate(schedule), Config,
               "rank 0, action 1 (F of stage 1, micro 0) belongs on rank 1");
  schedule = base();
  schedule.ranks[0][0].stage = 2;
  EXPECT_ERROR(validate(schedule), Config, "stages are 0 ... 1");
  schedule.ranks[0][0] = {Kind::F, 0, -1};
  EXPECT_ERROR(validate(schedule), Config, "micros are 0 ... 1");
}

TEST(Validate, WantsWholeOrSplitBackwardAndNotBoth) {
  Schedule schedule = base();
  schedule.ranks[1].push_back({Kind::W, 1, 1});
  EXPECT_ERROR(validate(schedule), Config,
               "rank 1 has both B and a half of it, of stage 1, micro 1");
  schedule = base();
  schedule.ranks[1][3].kind = Kind::I;
  EXPECT_ERROR(validate(schedule), Config, "rank 1 lacks W of stage 1, micro 1");
  schedule.ranks[1].push_back({Kind::W, 1, 1});
  validate(schedule);
}

TEST(Validate, RefusesMessagesThatGoNowhere) {
  Schedule schedule = add_comms(base());
  schedule.ranks[0].push_back({Kind::SendB, 0, 0});
  EXPECT_ERROR(validate(schedule), Config,
               "(SendB of stage 0, micro 0): no other rank is at its other end");
  schedule = add_comms(base());
  schedule.ranks[1].push_back({Kind::RecvB, 1, 0});
  EXPECT_ERROR(validate(schedule), Config, "no other rank is at its other end");
}

TEST(Validate, WantsJoinedForwardsBesideABackward) {
  Schedule schedule = base();
  schedule.ranks[0][0].joined = true;
  EXPECT_ERROR(validate(schedule), Config,
               "(F of stage 0, micro 0) is joined; only an F can be, to the backward");
  schedule = base();
  schedule.ranks[0][3].joined = true;
  EXPECT_ERROR(validate(schedule), Config, "(B of stage 0, micro 1) is joined");
  // Depends on its own output: both actions of a block need their inputs when it starts.
  schedule = base();
  schedule.ranks[1][0].joined = true;
  EXPECT_ERROR(validate(schedule), Config, "waits forever for F of stage 1, micro 0");
}

TEST(Validate, RefusesFormsThatCannotBe) {
  Schedule schedule = base();
  schedule.stages = 3;
  EXPECT_ERROR(validate(schedule), Config, "3 stages on 2 ranks; they have to be a multiple");
  schedule = zb_v(2, 4);
  schedule.stages = 6;
  EXPECT_ERROR(validate(schedule), Config, "6 stages on 2 ranks as a V; it has two a rank, 4");
  schedule = dualpipe(2, 4);
  schedule.micros = 3;
  EXPECT_ERROR(validate(schedule), Config, "it needs a stage a rank, and even ranks and micros");
  schedule = base();
  schedule.micros = 1 << 30;
  EXPECT_ERROR(validate(schedule), Config, "8 actions in all for 2 stages and 1073741824 micros");
  EXPECT_ERROR(validate(Schedule{}), Config, "none may be 0");
}

TEST(CheckMemory, NamesTheRankAboveTheLimit) {
  const std::vector<StageCost> costs = {{.activation_memory = 100, .memory_for_weight_grad = 50}};
  check_memory(one_f_one_b(4, 8), costs, 400);
  EXPECT_ERROR(check_memory(one_f_one_b(4, 8), costs, 399), Config,
               "1f1b: rank 0 holds 400 at its peak, above the memory limit 399");
}

}  // namespace
}  // namespace sextant
