#include "program/steady_state.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "config/model_presets.h"
#include "program/groups.h"
#include "program/pipeline.h"

namespace sextant {
namespace {

struct Programs {
  Pipeline pipeline;
  RankProgram program;
  SteadyState steady;
};

Programs programs_of(const char* schedule, int ranks, int micros, int rank, int zero = 0,
                     int chunks = 1) {
  ModelConfig model = *model_preset("tiny");
  model.layers = 8;
  model.tied = false;
  const Blueprint blueprint = make_blueprint(model);
  ParallelConfig parallel;
  parallel.pp = ranks;
  parallel.schedule = schedule;
  parallel.chunks = chunks;
  Programs out;
  out.pipeline = make_pipeline(blueprint, parallel, micros);
  const RankPart part = part_of(blueprint, out.pipeline, rank);
  out.program = make_program(out.pipeline, part, rank);
  out.steady =
      find_steady_state(out.pipeline.schedule, out.program,
                        StateProgram(make_groups(blueprint, part), out.program.uses, zero));
  return out;
}

TEST(SteadyState, OneRankRepeatsForwardAndBackward) {
  const SteadyState steady = programs_of("1f1b", 1, 20, 0).steady;
  EXPECT_EQ(steady.blocks, 2U);
  EXPECT_EQ(steady.micros, 1);
  EXPECT_EQ(steady.uses, 2 * 18);
  // From the first backward, as the first forward awaits its weights; two cycles are kept. Until
  // the last forward, as the last backward reduces gradients.
  EXPECT_EQ(steady.leave, 1U + 2 * 2);
  EXPECT_EQ(steady.end(), 2U * 19 + 1);
  EXPECT_EQ(steady.in_flight, std::vector<int>{2});  // between forward and backward
}

TEST(SteadyState, CyclesOfTheFirstRankBeginAfterABackward) {
  const SteadyState steady = programs_of("1f1b", 4, 40, 0).steady;
  EXPECT_EQ(steady.blocks, 4U);  // forward, send, backward, receive
  EXPECT_EQ(steady.micros, 1);
  EXPECT_GT(steady.left_out, 20);
  EXPECT_EQ(steady.in_flight.size(), 3U);
}

TEST(SteadyState, AnInterleavedScheduleRepeatsByGroups) {
  const SteadyState steady = programs_of("interleaved", 4, 64, 1, 0, 2).steady;
  EXPECT_EQ(steady.micros, 4);
  EXPECT_EQ(steady.uses, 4 * 2 * 4);
  EXPECT_GT(steady.left_out, 5);
}

TEST(SteadyState, MemoryThatGrowsIsNotSteady) {
  EXPECT_EQ(programs_of("gpipe", 4, 40, 1).steady.left_out, 0);
  EXPECT_EQ(programs_of("looped-bfs", 4, 40, 1, 0, 2).steady.left_out, 0);
}

TEST(SteadyState, FewMicrosAreAllKept) {
  EXPECT_EQ(programs_of("1f1b", 4, 8, 0).steady.left_out, 0);
  EXPECT_EQ(programs_of("1f1b", 1, 3, 0).steady.left_out, 0);
}

// Leaving out cycles and renaming later micro-batches gives a program in which every micro-batch
// has all of its actions once. The first and last ones may be split, I and W instead of B.
TEST(SteadyState, WhatIsLeftIsAProgramOfFewerMicros) {
  for (const char* schedule : {"1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe-v"})
    for (const int rank : {0, 1, 3})
      for (const int zero : {0, 1, 2, 3}) {
        const Programs programs = programs_of(schedule, 4, 48, rank, zero);
        const SteadyState& steady = programs.steady;
        ASSERT_GT(steady.left_out, 0) << schedule << " rank " << rank << " zero " << zero;
        const int fewer = steady.left_out * steady.micros;
        std::map<int, std::set<std::string>> of_micro;
        const auto add = [&](int micro, const std::string& action) {
          EXPECT_TRUE(of_micro[micro].insert(action).second) << schedule << " " << action;
        };
        for (size_t at = 0; at < programs.program.blocks.size(); ++at) {
          if (at >= steady.leave && at < steady.end()) continue;
          const Range& actions = programs.program.blocks[at].actions;
          for (int64_t i = actions.begin; i < actions.end; ++i) {
            const Action& action = programs.program.actions[static_cast<size_t>(i)];
            const int micro = action.micro - (at < steady.leave ? 0 : fewer);
            const bool is_whole = action.kind == Kind::B;
            add(micro,
                concat(static_cast<int>(is_whole ? Kind::I : action.kind), ".", action.stage));
            if (is_whole) add(micro, concat(static_cast<int>(Kind::W), ".", action.stage));
          }
        }
        EXPECT_EQ(of_micro.size(), static_cast<size_t>(48 - fewer)) << schedule;
        for (const auto& [micro, actions] : of_micro)
          EXPECT_EQ(actions, of_micro.begin()->second) << schedule << " micro " << micro;
      }
}

}  // namespace
}  // namespace sextant
