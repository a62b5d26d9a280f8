#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "checkpoint/directory.h"
#include "checkpoint/load.h"
#include "support/expect_error.h"
#include "support/training_test.h"

namespace sextant {
namespace {

constexpr const char* kValidatedRun = R"(
[model]
family = "gpt2"
layers = 4
hidden = 16
heads = 2
ffn = 24
vocab = 259
seq = 16
tied = false

[batch]
micro = 1
accumulation = 4

[parallel]
pp = 2
schedule = "zb-h1"

[optim]
lr = 1e-2
clip = 1.5

[train]
steps = 9
eval_batches = 2

[run]
threads = 1

[fault]
deadline = 60
)";

// Runs with optim.post_validation against runs without.
class PostValidatedRun : public TrainingTest {
 protected:
  using Settings = std::vector<std::string>;
  enum class Mode { Waiting, Ahead };

  ResolvedConfig config(Mode mode, Settings settings = {}) {
    settings.push_back(std::string("optim.post_validation=") +
                       (mode == Mode::Ahead ? "true" : "false"));
    settings.push_back("run.out=" + (dir_ / "out"));
    return parse_config(kValidatedRun, "test", settings);
  }
  RunResult run(Mode mode, const Settings& settings = {}, const RunOptions& options = {}) {
    return TrainingTest::run(config(mode, settings), options);
  }
  static RunOptions resume() {
    RunOptions options;
    options.resume = true;
    return options;
  }
  // Step, loss, norm and evaluation of each line of the metrics.
  std::vector<std::array<double, 4>> metrics() {
    std::vector<std::array<double, 4>> lines;
    for (const std::string& line : split(read_text(disk_, dir_ / "out/metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const nlohmann::json json = nlohmann::json::parse(line);
      lines.push_back(
          {json["step"], json["loss"], json["grad_norm"], json.value("eval_loss", 0.0)});
    }
    return lines;
  }
  // Hashes of all weights and moments of the last checkpoint.
  std::vector<ShardFile> saved() {
    return read_manifest(disk_, resolve_checkpoint(disk_, dir_ / "out/checkpoints")).files;
  }
  // The error of a failed run, without the rank that reports it.
  std::string failure(Mode mode, const Settings& settings) {
    try {
      run(mode, settings);
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(std::min(text.find("step"), text.size()));
    }
    return "none";
  }
};

TEST_F(PostValidatedRun, LeavesTheMetricsAndTheCheckpointOfAWaitingOne) {
  for (const Settings& settings :
       {Settings{}, Settings{"train.eval_every=2"}, Settings{"checkpoint.every=2"},
        Settings{"train.eval_every=1", "optim.clip=1e-3"}, Settings{"optim.clip=0"},
        Settings{"model.dropout=0.2", "optim.clip=1e-3", "train.eval_every=4"}}) {
    const RunResult waiting = run(Mode::Waiting, settings);
    const std::vector<std::array<double, 4>> lines = metrics();
    const std::vector<ShardFile> files = saved();
    const RunResult ahead = run(Mode::Ahead, settings);
    ASSERT_EQ(lines.size(), 9u);
    EXPECT_EQ(metrics(), lines);
    EXPECT_EQ(saved(), files);
    EXPECT_EQ(ahead.loss_first, waiting.loss_first);
    EXPECT_EQ(ahead.loss_last, waiting.loss_last);
    EXPECT_EQ(ahead.eval_loss, waiting.eval_loss);
  }
}

TEST_F(PostValidatedRun, GoesOnFromACheckpointBitForBit) {
  run(Mode::Ahead);
  const std::vector<std::array<double, 4>> lines = metrics();
  const std::vector<ShardFile> files = saved();
  const Settings constant = {"optim.schedule=constant"};
  run(Mode::Waiting, constant);
  const std::vector<std::array<double, 4>> wanted = metrics();
  const std::vector<ShardFile> wanted_files = saved();
  EXPECT_NE(files, wanted_files);  // the schedule matters
  run(Mode::Ahead, {"optim.schedule=constant", "train.steps=4"});
  EXPECT_EQ(metrics().size(), 4u);
  run(Mode::Ahead, constant, resume());
  EXPECT_EQ(metrics(), wanted);
  EXPECT_EQ(saved(), wanted_files);
  EXPECT_EQ(lines.size(), 9u);
}

// Killed in any step: the metrics have each final step once, in order, and the checkpoint is of a
// final step.
TEST_F(PostValidatedRun, GoesOnAfterAKillBitForBit) {
  run(Mode::Waiting, {"checkpoint.every=3"});
  const std::vector<std::array<double, 4>> wanted = metrics();
  const std::vector<ShardFile> files = saved();
  for (const char* where : {"rank=0,step=5", "rank=1,step=5", "rank=0,step=8,micro=2",
                            "rank=1,step=8,micro=1", "rank=1,step=7"}) {
    EXPECT_EXIT(run(Mode::Ahead, {"checkpoint.every=3", std::string("fault.inject=die:") + where}),
                testing::KilledBySignal(SIGKILL), "");
    const std::vector<std::array<double, 4>> left = metrics();
    ASSERT_LE(left.size(), wanted.size());
    EXPECT_GE(left.size(), 3u) << where;
    EXPECT_TRUE(std::equal(left.begin(), left.end(), wanted.begin())) << where;
    run(Mode::Ahead, {"checkpoint.every=3"}, resume());
    EXPECT_EQ(metrics(), wanted) << where;
    EXPECT_EQ(saved(), files) << where;
  }
}

// The stop request travels with the sums: one step to add it up, one to receive it.
TEST_F(PostValidatedRun, ASignalEndsItAfterTheSameStepOnAllRanks) {
  run(Mode::Waiting);
  const std::vector<std::array<double, 4>> wanted = metrics();
  const std::vector<ShardFile> files = saved();
  stop_ = true;
  const RunResult result = run(Mode::Ahead);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, 2);
  EXPECT_EQ(metrics().size(), 2u);
  stop_ = false;
  run(Mode::Ahead, {}, resume());
  EXPECT_EQ(metrics(), wanted);
  EXPECT_EQ(saved(), files);
}

TEST_F(PostValidatedRun, ALossThatIsNotFiniteEndsItWithTheSameWords) {
  const Settings diverging = {"optim.lr=1000", "optim.name=sgd", "optim.clip=0", "train.steps=50"};
  const std::string words = failure(Mode::Waiting, diverging);
  const std::vector<std::array<double, 4>> lines = metrics();
  EXPECT_NE(words, "none");
  EXPECT_EQ(failure(Mode::Ahead, diverging), words);
  EXPECT_EQ(metrics(), lines);
}

// The first rank learns of it in its next step, which another rank never runs.
TEST_F(PostValidatedRun, AFinalStepIsWrittenThoughTheNextOneFails) {
  EXPECT_ERROR(run(Mode::Ahead, {"fault.inject=stall:rank=1,step=4,micro=3", "fault.deadline=0.5"}),
               Peer, "rank 1");
  EXPECT_EQ(metrics().size(), 3u);
}

TEST_F(PostValidatedRun, IsRefusedWithoutAPipeline) {
  EXPECT_ERROR(config(Mode::Ahead, {"parallel.pp=1"}), Config,
               "optim.post_validation = true needs a pipeline, parallel.pp above 1");
}

}  // namespace
}  // namespace sextant
