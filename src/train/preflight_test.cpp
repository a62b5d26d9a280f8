#include "train/preflight.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/parse.h"
#include "support/expect_error.h"
#include "train/layout_text.h"
#include "train/preflight_pipeline.h"

namespace sextant {
namespace {

ResolvedConfig resolved(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(),
                   {"model.preset=gpt2-s", "run.threads=2", "batch.global=16", "batch.micro=8"});
  return parse_config("", "test", overrides);
}

TEST(Preflight, CountsParametersAndMemoryOfGpt2s) {
  const ResolvedConfig config = resolved();
  const Preflight flight = preflight(config.config, 0);
  // Tied tables of 256 x 384 tokens and positions, six layers, the last norm.
  const int64_t layer = 4 * 384 * 384 + 4 * 384 + 2 * 384 * 1536 + 1536 + 384 + 4 * 384;
  const int64_t tied = 2 * 256 * 384 + 2 * 384, parameters = tied + 6 * layer;
  EXPECT_EQ(flight.blueprint.parameters(), parameters);
  EXPECT_EQ(flight.memory[0].weights, 4 * parameters);
  // The second micro-batch uses a separate bucket for the tied embedding's group.
  EXPECT_EQ(flight.memory[0].gradients, 4 * (parameters + tied));
  EXPECT_EQ(flight.memory[0].optimizer, 8 * parameters);
  EXPECT_EQ(flight.threads, 2);
}

TEST(Preflight, SgdNeedsLessForItsMoments) {
  const int64_t weights = preflight(resolved().config, 0).memory[0].weights;
  EXPECT_EQ(
      preflight(resolved({"optim.name=sgd", "optim.momentum=0.9"}).config, 0).memory[0].optimizer,
      weights);
  EXPECT_EQ(
      preflight(resolved({"optim.name=sgd", "optim.momentum=0"}).config, 0).memory[0].optimizer, 0);
}

TEST(Preflight, ALimitIsKeptToTheByte) {
  const int64_t needed = preflight(resolved().config, 0).memory[0].reserved;
  const auto with = [](int64_t limit) {
    return resolved({"run.memory_limit=" + std::to_string(limit)}).config;
  };
  EXPECT_EQ(preflight(with(needed), 0).memory_limit, needed);
  EXPECT_ERROR(preflight(with(needed - 1), 0), Memory, "the run needs " + format_bytes(needed));
}

TEST(Preflight, AFaultThatCouldNeverStrikeIsRefused) {
  const auto with = [](const std::string& inject, const std::string& degree = "parallel.dp=2") {
    preflight(resolved({"fault.inject=" + inject, degree}).config, 0);
  };
  with("drop_bucket:group=6,rank=1,step=1");
  EXPECT_ERROR(with("drop_bucket:group=7"), Config, "the groups are 0 to 6");
  EXPECT_ERROR(with("stall:rank=2"), Config, "the ranks are 0 to 1");
  EXPECT_ERROR(with("scale_shard:step=0"), Config, "steps count from 1");
  EXPECT_ERROR(with("die:group=1"), Config, "die takes rank=, step=, micro=");
  EXPECT_ERROR(with("skip_gather"), Config, "nothing is gathered");
  with("skip_gather", "parallel.shard=2");
  EXPECT_ERROR(with("drop_bucket", "parallel.dp=1"), Config, "reduces nothing");
}

TEST(Preflight, TheTableSaysWhatWillRun) {
  const ResolvedConfig config = resolved();
  const std::string text = preflight_text(preflight(config.config, 150e9), config);
  for (const char* part :
       {"gpt2 gpt2-s: 6 layers, hidden 384, 6/6 heads of 64, ffn 1536, vocab 256", "per token",
        "step of 4096 tokens", "weights", "gradients", "optimizer", "activations", "workspace",
        "peak", "2 threads", "150 GFLOP/s", "global 16 = micro 8"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(Preflight, APipelineIsShownRankByRank) {
  const ResolvedConfig config =
      resolved({"parallel.pp=3", "parallel.dp=2", "batch.global=24", "batch.micro=2"});
  const std::string text = preflight_text(preflight(config.config, 0), config);
  for (const char* part :
       {"pipeline   1f1b: 3 ranks, 3 stages, 6 micro-batches; expected bubble ",
        "pp  ranks  stages  cost/mean  layers\n", "           0   0-1    0       ",
        "  embedding, layers 0-1\n", "           1   2-3    1       ", "  layers 2-3\n",
        "           2   4-5    2       ", "  layers 4-5, head\n", ": pp3 1f1b x dp2 over threads"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  EXPECT_EQ(preflight_text(preflight(resolved().config, 0), resolved()).find("pipeline"),
            std::string::npos);
}

TEST(Preflight, TheBubbleToExpectIsTheSimulatedOne) {
  // Six equal stages except for embedding and head, which are small for a byte vocabulary: close to
  // (p - 1) / (m + p - 1), and above it because of the head in the last stage.
  const PipelineOutlook outlook =
      pipeline_outlook(resolved({"parallel.pp=6", "batch.micro=1", "batch.global=10"}).config);
  EXPECT_GT(outlook.bubble_fraction, 5.0 / 15);
  EXPECT_LT(outlook.bubble_fraction, 5.0 / 15 + 0.05);
  EXPECT_EQ(outlook.stages.size(), 6u);
  double sum = 0;
  for (const PipelineOutlook::Stage& stage : outlook.stages) sum += stage.cost;
  EXPECT_NEAR(sum, 6, 1e-9) << "relative to the mean";
  EXPECT_GT(outlook.stages[5].cost, outlook.stages[1].cost);
}

TEST(Preflight, BothCopiesOfAStageAreListed) {
  const PipelineOutlook outlook = pipeline_outlook(
      resolved({"parallel.pp=2", "parallel.schedule=dualpipe", "batch.micro=1", "batch.global=4"})
          .config);
  EXPECT_EQ(outlook.stage_count, 2);
  ASSERT_EQ(outlook.stages.size(), 4u);
  const std::pair<int, int> wanted[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::pair(outlook.stages[i].stage, outlook.stages[i].rank), wanted[i]);
}

TEST(Preflight, ManyRanksAndStagesAreCutShort) {
  const ResolvedConfig config =
      resolved({"model.layers=160", "parallel.pp=16", "parallel.schedule=interleaved",
                "parallel.chunks=10", "batch.global=16", "batch.micro=1"});
  const std::string text = pipeline_text(pipeline_outlook(config.config), "pipeline", 11);
  EXPECT_NE(text.find("embedding, layer 0; layer 16; …; layer 144"), std::string::npos) << text;
  EXPECT_NE(text.find("15  15     15 31 … 159"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 14) << text;
}

TEST(LayoutText, SaysWhatBelongsToEachAxis) {
  const auto of = [](std::vector<std::string> overrides) {
    overrides.push_back("batch.micro=1");
    return layout_text(parse_config("[model]\npreset = \"gpt2-s\"", "test", overrides).config);
  };
  EXPECT_EQ(of({"batch.accumulation=1"}), "1 rank");
  EXPECT_EQ(of({"parallel.dp=2", "parallel.shard=4", "parallel.zero=3"}), "dp2 x shard4 zero 3");
  EXPECT_EQ(of({"parallel.pp=4", "parallel.shard=2", "parallel.zero=2"}),
            "pp4 1f1b x shard2 zero 2, accumulation 8");
  EXPECT_EQ(of({"parallel.pp=2", "parallel.schedule=interleaved", "parallel.chunks=3",
                "parallel.split=balanced", "batch.accumulation=1"}),
            "pp2 interleaved 3 chunks split balanced");
  EXPECT_EQ(of({"parallel.pp=2", "parallel.schedule=some/own.csv", "batch.accumulation=1"}),
            "pp2 own.csv");
}

}  // namespace
}  // namespace sextant
