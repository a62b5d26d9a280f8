#include "schedule/make_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedule/generators.h"
#include "schedule/print.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

Schedule make(const std::string& name, int ranks, int micros, int chunks = 1, int group = 0) {
  return make_schedule(
      {.name = name, .ranks = ranks, .micros = micros, .chunks = chunks, .micro_group = group});
}

TEST(MakeSchedule, KnowsEveryName) {
  EXPECT_EQ(schedule_names(),
            (std::vector<std::string>{"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1",
                                      "zb-h2", "interleaved-zb", "zb-v", "zb-auto", "v-half",
                                      "v-min", "dualpipe", "dualpipe-v"}));
  for (const ScheduleInfo& info : schedule_table()) {
    const Schedule schedule = make(std::string(info.name), 4, 8);
    EXPECT_EQ(schedule.name, info.name);
    EXPECT_EQ(schedule.placement, info.placement);
    EXPECT_EQ(schedule.size(), 4);
    EXPECT_EQ(schedule.micros, 8);
    bool splits = false;
    for (const std::vector<Action>& todo : schedule.ranks)
      for (const Action& action : todo) splits |= action.kind == Kind::I;
    EXPECT_EQ(splits, info.splits_backward) << info.name;
  }
}

TEST(MakeSchedule, RefusesUnknownNamesWithTheNearest) {
  EXPECT_ERROR(make("zb-h3", 4, 8), Config, "no schedule 'zb-h3', did you mean 'zb-h");
  EXPECT_ERROR(make("something", 4, 8), Config, "there are gpipe, 1f1b, interleaved");
}

TEST(MakeSchedule, TakesASingleRankAsAnyOther) {
  for (const std::string& name : schedule_names())
    if (name != "dualpipe") {
      EXPECT_EQ(make(name, 1, 4).size(), 1) << name;
    }
}

TEST(MakeSchedule, RefusesSizesThatCannotBe) {
  EXPECT_ERROR(make("1f1b", 0, 8), Config,
               "0 ranks, 8 micros, 1 chunks; each has to be at least 1");
  EXPECT_ERROR(make("1f1b", 4, -1), Config, "-1 micros");
  EXPECT_ERROR(make("interleaved", 4, 8, 0), Config, "0 chunks");
  EXPECT_ERROR(make("1f1b", 1 << 16, 1 << 16), Config, "together at most 16777216");
  EXPECT_ERROR(make("looped-bfs", 1 << 30, 1, 1 << 30), Config, "together at most");
}

TEST(MakeSchedule, RefusesChunksAndGroupsWhereThereAreNone) {
  EXPECT_ERROR(make("1f1b", 4, 8, 2), Config,
               "1f1b: 2 chunks; it has 1 a rank, interleaved and looped-bfs take any number");
  EXPECT_ERROR(make("zb-v", 4, 8, 3), Config, "zb-v: 3 chunks; it has 2 a rank");
  EXPECT_EQ(make("zb-v", 4, 8, 2).ranks, make("zb-v", 4, 8).ranks);
  EXPECT_ERROR(make("1f1b", 4, 8, 1, 4), Config, "only interleaved schedules have groups");
  EXPECT_ERROR(make("looped-bfs", 4, 8, 2, 4), Config, "only interleaved schedules have groups");
  EXPECT_ERROR(make("interleaved", 4, 8, 2, -4), Config, "a group of -4 micros");
}

TEST(MakeSchedule, InterleavedNeedsGroupsThatReachEveryRank) {
  EXPECT_ERROR(make("interleaved", 4, 3, 2), Config,
               "3 micros on 4 ranks; it needs at least as many micros as ranks, or use looped-bfs");
  EXPECT_ERROR(make("interleaved", 4, 10, 2), Config,
               "10 micros in groups of 4 on 4 ranks; groups of 5 would work, or 8 or 12 micros in "
               "groups of 4");
  EXPECT_ERROR(make("interleaved-zb", 4, 8, 2, 3), Config, "in groups of 3");
  EXPECT_EQ(make("interleaved", 4, 10, 2, 5).ranks, interleaved(4, 10, 2, 5).ranks);
  EXPECT_EQ(make("interleaved", 4, 10, 2, 6).ranks, interleaved(4, 10, 2, 6).ranks);
  EXPECT_EQ(make("interleaved", 4, 8, 2).ranks, interleaved(4, 8, 2, 4).ranks);
}

TEST(MakeSchedule, DualpipeNeedsTwoDirectionsAndAFullPipe) {
  EXPECT_ERROR(make("dualpipe", 3, 8), Config,
               "3 ranks and 8 micros; it runs in two directions and needs both even, or use "
               "dualpipe-v");
  EXPECT_ERROR(make("dualpipe", 4, 9), Config, "4 ranks and 9 micros");
  EXPECT_ERROR(make("dualpipe", 4, 6), Config, "at least twice as many micros as ranks, 8");
  EXPECT_ERROR(make("dualpipe-v", 4, 7), Config, "at least twice as many micros as ranks, 8");
}

TEST(MakeSchedule, ZbVIsHandMadeOnlyForEqualTimes) {
  EXPECT_EQ(make("zb-v", 4, 8).ranks, zb_v(4, 8).ranks);
  const std::vector<StageCost> equal(8, {3, 3, 3}), real(8, {10, 12, 8});
  EXPECT_EQ(make_schedule({.name = "zb-v", .ranks = 4, .micros = 8, .costs = equal}).ranks,
            zb_v(4, 8).ranks);
  EXPECT_EQ(make_schedule({.name = "zb-v", .ranks = 4, .micros = 8, .costs = real}).ranks,
            zb_v_greedy(4, 8, real[0], 0, 8).ranks);
  EXPECT_EQ(
      make_schedule({.name = "zb-v", .ranks = 4, .micros = 8, .costs = equal, .message_time = 1})
          .ranks,
      zb_v_greedy(4, 8, equal[0], 1, 8).ranks);
}

TEST(MakeSchedule, KeepsTheMemoryLimitOrRefuses) {
  ScheduleRequest request = {.name = "1f1b", .ranks = 4, .micros = 8, .memory_limit = 4};
  EXPECT_EQ(make_schedule(request).size(), 4);
  request.memory_limit = 3;
  EXPECT_ERROR(make_schedule(request), Config,
               "1f1b: rank 0 holds 4 at its peak, above the memory limit 3");
  request.costs = {{10, 12, 8, 1, 0.25}};
  request.name = "zb-auto";
  for (const double limit : {1.0, 3.0, 4.5, 6.0}) {
    request.memory_limit = limit;
    EXPECT_EQ(make_schedule(request).size(), 4) << limit;
  }
  request.memory_limit = 0.5;
  EXPECT_ERROR(make_schedule(request), Config, "zb-auto: memory limit 0.5 is too small");
  request.name = "zb-v";
  request.memory_limit = 7;
  EXPECT_ERROR(
      make_schedule(request), Config,
      "zb-v: memory limit 7; it needs what 2 forwards for each rank hold, 8, v-half and v-min");
  request.memory_limit = 8.5;
  EXPECT_EQ(make_schedule(request).size(), 4);
}

TEST(MakeSchedule, UsesTheCostsOfEachStage) {
  ScheduleRequest request = {.name = "zb-auto", .ranks = 3, .micros = 6};
  request.costs = {{1, 1, 1}, {1, 1, 1}, {3, 4, 2}};
  const Schedule uneven = make_schedule(request);
  request.costs = {{1, 1, 1}};
  EXPECT_NE(uneven.ranks, make_schedule(request).ranks);
  request.costs = {{1, 1, 1}, {1, 1, 1}};
  EXPECT_ERROR(make_schedule(request), Config, "costs of 2 stages; give 1 or 3");
}

TEST(MakeSchedule, RefusesCostsThatCannotBe) {
  const auto with = [](StageCost cost, double comm = 0, double limit = 0) {
    return make_schedule({.name = "zb-auto",
                          .ranks = 2,
                          .micros = 4,
                          .costs = {cost},
                          .message_time = comm,
                          .memory_limit = limit});
  };
  EXPECT_ERROR(with({-1, 1, 1}), Config, "times -1, 1, 1; they cannot be negative");
  EXPECT_ERROR(with({1, std::nan(""), 1}), Config, "times 1, nan, 1");
  EXPECT_ERROR(with({1, 1, 1, 0, 0}), Config, "a forward holds 0");
  EXPECT_ERROR(with({1, 1, 1, 1, 2}), Config, "of which 2 for the weights");
  EXPECT_ERROR(with({}, -1), Config, "messages take -1");
  EXPECT_ERROR(with({}, 0, INFINITY), Config, "memory limit inf");
}

}  // namespace
}  // namespace sextant
