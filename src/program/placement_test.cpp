// Placement of layers, as in the figures of the schedules' papers.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/pipeline.h"
#include "program/stages.h"
#include "schedule/make_schedule.h"
#include "support/small_blueprint.h"

namespace sextant {
namespace {

// The transformer blocks of a rank, by chunk.
std::vector<int> blocks_of(const Blueprint& blueprint, const Pipeline& pipeline, int rank) {
  std::vector<int> blocks;
  for (const size_t layer : part_of(blueprint, pipeline, rank).layers)
    if (blueprint.layers[layer].kind == LayerKind::Attention)
      blocks.push_back(static_cast<int>(layer - 1) / 2);
  return blocks;
}

ParallelConfig parallel_of(int pp, const std::string& schedule, int chunks) {
  ParallelConfig parallel;
  parallel.pp = pp;
  parallel.schedule = schedule;
  parallel.chunks = chunks;
  return parallel;
}

TEST(Placement, TwentyFourBlocksOnFourStagesLieSixBySix) {
  const Blueprint blueprint = small_blueprint(24);
  const Pipeline pipeline = make_pipeline(blueprint, parallel_of(4, "1f1b", 1), 8);
  ASSERT_EQ(pipeline.stages.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<int> expected;
    for (int i = 0; i < 6; ++i) expected.push_back(6 * rank + i);
    EXPECT_EQ(blocks_of(blueprint, pipeline, rank), expected);
    const RankPart part = part_of(blueprint, pipeline, rank);
    EXPECT_EQ(part.holds(blueprint, LayerKind::Embedding), rank == 0);
    EXPECT_EQ(part.holds(blueprint, LayerKind::Head), rank == 3);
  }
  EXPECT_EQ(layers_text(blueprint, pipeline.stages[0]), "embedding, layers 0-5");
  EXPECT_EQ(layers_text(blueprint, pipeline.stages[3]), "layers 18-23, head");
}

TEST(Placement, InterleavedRanksTakeEveryOtherPair) {
  const Blueprint blueprint = small_blueprint(8);
  const Pipeline pipeline = make_pipeline(blueprint, parallel_of(2, "interleaved", 2), 4);
  EXPECT_EQ(blocks_of(blueprint, pipeline, 0), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(blocks_of(blueprint, pipeline, 1), (std::vector<int>{2, 3, 6, 7}));
}

TEST(Placement, AVTurnsRoundAtTheLastRank) {
  const Blueprint blueprint = small_blueprint(8);
  const Pipeline pipeline = make_pipeline(blueprint, parallel_of(4, "zb-v", 2), 8);
  EXPECT_EQ(blocks_of(blueprint, pipeline, 0), (std::vector<int>{0, 7}));
  EXPECT_EQ(blocks_of(blueprint, pipeline, 3), (std::vector<int>{3, 4}));
  EXPECT_TRUE(part_of(blueprint, pipeline, 0).holds(blueprint, LayerKind::Head));
}

TEST(Placement, DualPipeHasEveryStageTwice) {
  const Blueprint blueprint = small_blueprint(8);
  const Pipeline pipeline = make_pipeline(blueprint, parallel_of(4, "dualpipe", 1), 8);
  EXPECT_EQ(blocks_of(blueprint, pipeline, 0), (std::vector<int>{0, 1, 6, 7}));
  EXPECT_EQ(blocks_of(blueprint, pipeline, 3), (std::vector<int>{6, 7, 0, 1}));
}

// Number of sends from one rank to another in the schedule that runs.
int sends(const Pipeline& pipeline, int from, int to, Kind kind) {
  const Schedule& schedule = pipeline.schedule;
  int count = 0;
  for (const Action& action : schedule.ranks[static_cast<size_t>(from)])
    if (action.kind == kind &&
        schedule.rank_of(action.stage + (kind == Kind::SendF ? 1 : -1), action.micro) == to)
      ++count;
  return count;
}

// Each message is one micro-batch of activations or of their gradients, b s h elements; so a
// boundary carries 2 m b s h elements per step, and v times that with v chunks.
TEST(Placement, OverABoundaryGoesEachMicroBatchOnceForwardAndOnceBackForEachChunk) {
  const Blueprint blueprint = small_blueprint(16);
  for (const int chunks : {1, 2, 4})
    for (const int micros : {4, 8}) {
      const Pipeline pipeline = make_pipeline(
          blueprint, parallel_of(4, chunks == 1 ? "1f1b" : "interleaved", chunks), micros);
      for (int rank = 0; rank < 4; ++rank) {
        const int next = (rank + 1) % 4;
        const int crossings = rank == 3 ? chunks - 1 : chunks;  // wraps around to the first rank
        EXPECT_EQ(sends(pipeline, rank, next, Kind::SendF), crossings * micros);
        EXPECT_EQ(sends(pipeline, next, rank, Kind::SendB), crossings * micros);
      }
    }
}

TEST(Pipeline, TheNamesThatAConfigurationTakesAreThoseOfTheSchedules) {
  std::vector<std::string> known(std::begin(kSchedules), std::end(kSchedules));
  std::vector<std::string> made = schedule_names();
  std::ranges::sort(known);
  std::ranges::sort(made);
  EXPECT_EQ(known, made);
}

}  // namespace
}  // namespace sextant
