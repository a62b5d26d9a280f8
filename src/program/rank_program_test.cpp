#include "program/rank_program.h"

#include <gtest/gtest.h>

#include "config/model_presets.h"
#include "program/pipeline.h"

namespace sextant {
namespace {

// Layers: embedding 0, block 1 2, block 3 4, ..., head.
Blueprint model_of(int64_t layers, bool tied = false) {
  ModelConfig model = *model_preset("tiny");
  model.layers = layers;
  model.tied = tied;
  return make_blueprint(model);
}

Pipeline pipeline_of(const Blueprint& blueprint, const char* schedule, int ranks, int micros,
                     int chunks = 1) {
  ParallelConfig parallel;
  parallel.pp = ranks;
  parallel.schedule = schedule;
  parallel.chunks = chunks;
  return make_pipeline(blueprint, parallel, micros);
}

// Blocks with their uses: "F0.1" is the forward of the rank's layer 0 for micro-batch 1, "F0.1:2"
// its second phase.
std::string text(const RankProgram& program) {
  std::string out;
  for (const RankProgram::Block& block : program.blocks) {
    if (block.uses.size() == 0) continue;
    out += "(";
    for (int64_t i = block.uses.begin; i < block.uses.end; ++i) {
      const LayerUse& use = program.uses[static_cast<size_t>(i)];
      out += out.ends_with('(') ? "" : " ";
      out += "FBIWR"[static_cast<int>(use.pass)] + std::to_string(use.layer) + "." +
             std::to_string(use.micro);
      if (use.phase != Phase::Whole) out += ":" + std::to_string(static_cast<int>(use.phase));
    }
    out += ")";
  }
  return out;
}

std::string program_text(const Blueprint& blueprint, const Pipeline& pipeline, int rank) {
  return text(make_program(pipeline, part_of(blueprint, pipeline, rank), rank));
}

TEST(RankProgram, LayersGoForwardInOrderAndBackInReverse) {
  const Blueprint blueprint = model_of(2);
  const Pipeline pipeline = pipeline_of(blueprint, "1f1b", 2, 2);
  EXPECT_EQ(program_text(blueprint, pipeline, 0),
            "(F0.0 F1.0 F2.0)(F0.1 F1.1 F2.1)(B2.0 B1.0 B0.0)(B2.1 B1.1 B0.1)");
  EXPECT_EQ(program_text(blueprint, pipeline, 1),
            "(F0.0 F1.0 F2.0)(B2.0 B1.0 B0.0)(F0.1 F1.1 F2.1)(B2.1 B1.1 B0.1)");
}

TEST(RankProgram, BothHalvesOfBackwardGoInReverse) {
  const Blueprint blueprint = model_of(2);
  const Pipeline pipeline = pipeline_of(blueprint, "zb-h1", 2, 2);
  EXPECT_EQ(program_text(blueprint, pipeline, 1),
            "(F0.0 F1.0 F2.0)(I2.0 I1.0 I0.0)(F0.1 F1.1 F2.1)(I2.1 I1.1 I0.1)"
            "(W2.0 W1.0 W0.0)(W2.1 W1.1 W0.1)");
}

TEST(RankProgram, WhatIsNotKeptIsRecomputedRightBeforeItsBackward) {
  const Blueprint blueprint = model_of(2);
  Pipeline pipeline = pipeline_of(blueprint, "1f1b", 1, 1);
  pipeline.keeps = keeps_of(blueprint, Recompute::Selective);  // recompute the attention cores
  EXPECT_EQ(program_text(blueprint, pipeline, 0),
            "(F0.0 F1.0 F2.0 F3.0 F4.0 F5.0)(B5.0 B4.0 R3.0 B3.0 B2.0 R1.0 B1.0 B0.0)");
  pipeline.keeps = keeps_of(blueprint, Recompute::Full);  // recompute each block from its input
  EXPECT_EQ(program_text(blueprint, pipeline, 0),
            "(F0.0 F1.0 F2.0 F3.0 F4.0 F5.0)(B5.0 R3.0 R4.0 B4.0 B3.0 R1.0 R2.0 B2.0 B1.0 B0.0)");
}

TEST(RankProgram, TheCheapSetIsRecomputedLayerByLayer) {
  const Blueprint blueprint = model_of(1);
  Pipeline pipeline = pipeline_of(blueprint, "1f1b", 1, 1);
  pipeline.keeps = keeps_of(blueprint, Recompute::Cheap);
  EXPECT_EQ(program_text(blueprint, pipeline, 0),
            "(F0.0 F1.0 F2.0 F3.0)(B3.0 R2.0 B2.0 R1.0 B1.0 B0.0)");
}

TEST(RankProgram, SomeLayersOfEachStageAreRecomputed) {
  const Blueprint blueprint = model_of(4);
  Pipeline pipeline = pipeline_of(blueprint, "1f1b", 2, 1);
  MemoryConfig memory;
  memory.recompute = Recompute::Full;
  memory.recompute_layers = 1;
  pipeline.keeps = keeps_of(blueprint, pipeline.stages, memory);
  EXPECT_EQ(program_text(blueprint, pipeline, 0),
            "(F0.0 F1.0 F2.0 F3.0 F4.0)(B4.0 B3.0 R1.0 R2.0 B2.0 B1.0 B0.0)");
  EXPECT_EQ(program_text(blueprint, pipeline, 1),
            "(F0.0 F1.0 F2.0 F3.0 F4.0)(B4.0 B3.0 B2.0 R0.0 R1.0 B1.0 B0.0)");
  memory.recompute_layers = 2;  // all of a stage
  EXPECT_EQ(keeps_of(blueprint, pipeline.stages, memory), keeps_of(blueprint, Recompute::Full));
}

TEST(RankProgram, InputGradientsRecomputeAndWeightGradientsDoNot) {
  const Blueprint blueprint = model_of(2);
  Pipeline pipeline = pipeline_of(blueprint, "zb-h1", 2, 1);
  pipeline.keeps = keeps_of(blueprint, Recompute::Full);
  EXPECT_EQ(program_text(blueprint, pipeline, 1),
            "(F0.0 F1.0 F2.0)(I2.0 R0.0 R1.0 I1.0 I0.0)(W2.0 W1.0 W0.0)");
}

TEST(RankProgram, AChunkUsesItsOwnLayers) {
  const Blueprint blueprint = model_of(4);
  const Pipeline pipeline = pipeline_of(blueprint, "looped-bfs", 2, 1, 2);
  EXPECT_EQ(program_text(blueprint, pipeline, 0),
            "(F0.0 F1.0 F2.0)(F3.0 F4.0)(B4.0 B3.0)(B2.0 B1.0 B0.0)");
  EXPECT_EQ(program_text(blueprint, pipeline, 1),
            "(F0.0 F1.0)(F2.0 F3.0 F4.0)(B4.0 B3.0 B2.0)(B1.0 B0.0)");
}

TEST(RankProgram, LayersOfJoinedActionsTakeTurns) {
  const Blueprint blueprint = model_of(4);
  Pipeline pipeline;
  pipeline.stages = {{0, 3}, {3, 10}};
  pipeline.schedule = {"by hand", 2, 2, Placement::Loop, {{}, {}}};
  pipeline.schedule.ranks[1] = {
      {Kind::F, 1, 0}, {Kind::F, 1, 1, true}, {Kind::B, 1, 0}, {Kind::I, 1, 1}, {Kind::W, 1, 1}};
  const std::string forth = "F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0";
  EXPECT_EQ(program_text(blueprint, pipeline, 1),
            "(" + forth +
                ")(F0.1 B6.0 F1.1 B5.0 F2.1 B4.0 F3.1 B3.0 F4.1 B2.0 F5.1 B1.0 F6.1 B0.0)"
                "(I6.1 I5.1 I4.1 I3.1 I2.1 I1.1 I0.1)(W6.1 W5.1 W4.1 W3.1 W2.1 W1.1 W0.1)");
}

// Layers 1, 3 and 5 have experts: whenever one action has sent rows of tokens, forth or back, the
// other one has its turn before they are waited for.
TEST(RankProgram, JoinedActionsRunWhileRowsOfTheOtherTravel) {
  const Blueprint blueprint = model_of(4);
  Pipeline pipeline;
  pipeline.stages = {{0, 3}, {3, 10}};
  pipeline.schedule = {"by hand", 2, 2, Placement::Loop, {{}, {}}};
  pipeline.schedule.ranks[1] = {{Kind::F, 1, 1, true}, {Kind::B, 1, 0}};
  const auto with_experts = [&] {
    RankPart part = part_of(blueprint, pipeline, 1);
    part.exchanges = {false, true, false, true, false, true, false};
    return text(make_program(pipeline, part, 1));
  };
  EXPECT_EQ(with_experts(),
            "(F0.1 F1.1:1 B6.0 B5.0:1 F1.1:2 B5.0:2 F1.1:3 F2.1 F3.1:1 B5.0:3 B4.0 B3.0:1 F3.1:2 "
            "B3.0:2 F3.1:3 F4.1 F5.1:1 B3.0:3 B2.0 B1.0:1 F5.1:2 B1.0:2 F5.1:3 B1.0:3 F6.1 B0.0)");
  // What is recomputed from its input exchanges rows again.
  pipeline.keeps = keeps_of(blueprint, Recompute::Full);
  EXPECT_EQ(with_experts(),
            "(F0.1 F1.1:1 B6.0 R4.0 R5.0:1 F1.1:2 R5.0:2 F1.1:3 F2.1 F3.1:1 R5.0:3 B5.0:1 F3.1:2 "
            "B5.0:2 F3.1:3 F4.1 F5.1:1 B5.0:3 B4.0 R2.0 R3.0:1 F5.1:2 R3.0:2 F5.1:3 R3.0:3 B3.0:1 "
            "F6.1 B3.0:2 B3.0:3 B2.0 R0.0 R1.0:1 R1.0:2 R1.0:3 B1.0:1 B1.0:2 B1.0:3 B0.0)");
  pipeline.schedule.ranks[1] = {{Kind::F, 1, 1}, {Kind::B, 1, 0}};
  pipeline.keeps = {};
  EXPECT_EQ(with_experts(),
            "(F0.1 F1.1 F2.1 F3.1 F4.1 F5.1 F6.1)(B6.0 B5.0 B4.0 B3.0 B2.0 B1.0 B0.0)");
}

TEST(RankPart, ExpertsOfOtherRanksNeedExchanges) {
  ModelConfig model = *model_preset("tiny-mixtral");
  model.layers = 2;
  model.dense_layers = 1;
  model.ffn = 8;
  const auto exchanges = [&](const ExpertPart& experts) {
    return whole_model(make_blueprint(model, {}, experts)).exchanges;
  };
  const std::vector<bool> none(6);
  EXPECT_EQ(exchanges({}), none);
  for (const ExpertPart& part : {ExpertPart{2, 0}, ExpertPart{1, 0, 2, 0}})
    EXPECT_EQ(exchanges(part), (std::vector<bool>{false, false, false, false, true, false}));
}

// Of two stages of different size the longer one finishes alone.
TEST(RankProgram, TheLongerOfTwoJoinedActionsGoesOnAlone) {
  const Blueprint blueprint = model_of(3);
  Pipeline pipeline;
  pipeline.stages = {{0, 1}, {1, 8}};
  pipeline.schedule = {"by hand", 2, 2, Placement::V, {{}}};
  pipeline.schedule.ranks[0] = {
      {Kind::F, 0, 0}, {Kind::F, 1, 0}, {Kind::F, 0, 1, true}, {Kind::B, 1, 0}};
  const RankProgram program = make_program(pipeline, part_of(blueprint, pipeline, 0), 0);
  EXPECT_EQ(text(program),
            "(F0.0)(F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0)(F0.1 B7.0 B6.0 B5.0 B4.0 B3.0 B2.0 B1.0)");
  EXPECT_EQ(program.blocks.back().actions, (Range{2, 4}));
}

TEST(RankProgram, MessagesAreBlocksWithoutLayers) {
  const Blueprint blueprint = model_of(2);
  const Pipeline pipeline = pipeline_of(blueprint, "gpipe", 2, 1);
  const RankProgram program = make_program(pipeline, part_of(blueprint, pipeline, 1), 1);
  ASSERT_EQ(program.blocks.size(), 4u);
  const Kind kinds[] = {Kind::RecvF, Kind::F, Kind::B, Kind::SendB};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(program.actions[i].kind, kinds[i]);
    EXPECT_EQ(program.blocks[i].uses.size(), i == 1 || i == 2 ? 3 : 0);
  }
}

TEST(RankPart, KnowsWhoHoldsTheSame) {
  using Duplicates = RankPart::Duplicates;
  struct Known {
    const char* schedule;
    bool tied;
    Duplicates duplicates;
    std::vector<bool> is_second;
  };
  const Known all[] = {{"1f1b", false, Duplicates::None, {false, false, false, false}},
                       {"1f1b", true, Duplicates::Ends, {false, false, false, true}},
                       {"zb-v", false, Duplicates::None, {false, false, false, false}},
                       {"zb-v", true, Duplicates::None, {false, false, false, false}},
                       {"dualpipe", false, Duplicates::Mirror, {false, false, true, true}},
                       {"dualpipe", true, Duplicates::Mirror, {false, false, true, true}}};
  for (const Known& known : all) {
    const Blueprint blueprint = model_of(8, known.tied);
    const Pipeline pipeline = pipeline_of(blueprint, known.schedule, 4, 8);
    for (int rank = 0; rank < 4; ++rank) {
      const RankPart part = part_of(blueprint, pipeline, rank);
      EXPECT_EQ(part.duplicates, known.duplicates) << known.schedule;
      EXPECT_EQ(part.is_second, known.is_second[static_cast<size_t>(rank)]) << known.schedule;
    }
  }
}

TEST(RankPart, OfAVHoldsBothEndsAndOfAMirrorTheOppositeStage) {
  const Blueprint blueprint = model_of(8);
  const RankPart v = part_of(blueprint, pipeline_of(blueprint, "v-half", 4, 8), 0);
  EXPECT_EQ(v.layers, (std::vector<size_t>{0, 1, 2, 15, 16, 17}));
  EXPECT_EQ(v.chunks[1].stage, 7);
  EXPECT_TRUE(v.holds(blueprint, LayerKind::Embedding) && v.holds(blueprint, LayerKind::Head));
  const Pipeline dual = pipeline_of(blueprint, "dualpipe", 4, 8);
  const RankPart second = part_of(blueprint, dual, 1), third = part_of(blueprint, dual, 2);
  EXPECT_EQ(second.layers, (std::vector<size_t>{5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(third.layers, (std::vector<size_t>{9, 10, 11, 12, 5, 6, 7, 8}));
  EXPECT_FALSE(second.holds(blueprint, LayerKind::Head));
}

// All micro-batches go through all stages once; ranks with several chunks run them in groups.
TEST(Pipeline, ForwardOnlyGoesThroughEveryStageOnce) {
  for (const char* schedule : {"1f1b", "looped-bfs", "zb-v", "dualpipe", "dualpipe-v"})
    for (const int micros : {1, 3, 6}) {
      const Blueprint blueprint = model_of(8);
      const Pipeline whole = pipeline_of(blueprint, schedule, 4, 8);
      const Pipeline forward = forward_only(whole, micros);
      std::vector<int> seen(static_cast<size_t>(whole.schedule.stages * micros));
      int sends = 0;
      for (int rank = 0; rank < 4; ++rank)
        for (const Action& action : forward.schedule.ranks[static_cast<size_t>(rank)]) {
          sends += action.kind == Kind::SendF;
          if (action.kind != Kind::F) continue;
          ++seen[static_cast<size_t>(action.stage * micros + action.micro)];
          EXPECT_EQ(forward.schedule.rank_of(action.stage, action.micro), rank);
          // On the rank that holds the stage in training.
          const RankPart step = part_of(blueprint, whole, rank);
          EXPECT_EQ(step.chunks[static_cast<size_t>(
                                    forward.schedule.chunk_of(action.stage, action.micro))]
                        .stage,
                    action.stage);
        }
      for (const int count : seen) EXPECT_EQ(count, 1) << schedule << " " << micros;
      const int turns = whole.schedule.placement == Placement::V ? 1 : 0;
      EXPECT_EQ(sends, (whole.schedule.stages - 1 - turns) * micros) << schedule;
    }
}

}  // namespace
}  // namespace sextant
