// A checkpoint of one layout resumes in any other.
#include <nlohmann/json.hpp>

#include "checkpoint/directory.h"
#include "support/pipelines.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

class PipelineCheckpoint : public PipelineTest {
 protected:
  // All layouts train on the same eight sequences per step, one per micro-batch, without clipping:
  // the norm over several ranks is summed in another order.
  ResolvedConfig layout(const std::string& text, int steps, const Settings& more = {}) const {
    Settings settings = {"model.layers=8",
                         "batch.global=8",
                         "batch.micro=1",
                         "run.threads=1",
                         "optim.lr=1e-2",
                         "optim.clip=0",
                         "optim.schedule=constant",
                         "train.eval_every=2",
                         "train.eval_batches=5",
                         "train.steps=" + std::to_string(steps),
                         "run.out=" + (dir_ / "out")};
    for (const std::string& part : split(text, ' ')) settings.push_back("parallel." + part);
    return parse_config(kGpt2, "test", settings + more);
  }
  // Losses and evaluations of every step, bit for bit.
  std::vector<double> losses() {
    std::vector<double> all;
    for (const std::string& line : split(read_text(disk_, dir_ / "out/metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const nlohmann::json step = nlohmann::json::parse(line);
      all.push_back(step["loss"]);
      if (step.contains("eval_loss") && !step["eval_loss"].is_null())
        all.push_back(step["eval_loss"]);
    }
    return all;
  }
  // Weights of the last checkpoint, loaded on one rank.
  Tensors weights(const Settings& more) {
    const Config alone = layout("dp=1", 4, more).config;
    Tensors all;
    on_ranks(alone, [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.load_weights(resolve_checkpoint(disk_, dir_ / "out/checkpoints"));
      for (const OwnedSlice& slice : trainer.model().sharded().owned()) {
        std::vector<float>& values = all[slice.name];
        values.resize(static_cast<size_t>(slice.value.elements()));
        copy_to_host<float>(trainer.stream(), values, slice.value);
      }
    });
    return all;
  }
  void train(const std::string& text, int steps, const Settings& more) {
    run(layout(text, steps, more));
  }
  void go_on(const std::string& text, int steps, const Settings& more) {
    RunOptions resume;
    resume.resume = true;
    EXPECT_EQ(run(layout(text, steps, more), resume).steps, steps) << text;
  }
};

const Settings kTiedCheckpoint = {"model.tied=true"}, kUntied = {"model.tied=false"};

TEST_F(PipelineCheckpoint, AnyLayoutGoesOnInTheBitsOfOneRank) {
  train("dp=1", 6, kUntied);
  const std::vector<double> whole = losses();
  const Tensors ends = weights(kUntied);
  EXPECT_EQ(whole.size(), 6u + 3u);
  for (const char* saved :
       {"pp=4 schedule=1f1b", "pp=4 schedule=zb-v", "pp=4 schedule=interleaved chunks=2"}) {
    train(saved, 2, kUntied);
    go_on("pp=2 schedule=zb-h1", 4, kUntied);
    go_on("dp=1", 5, kUntied);
    go_on(saved, 6, kUntied);
    EXPECT_EQ(losses(), whole) << saved;
    EXPECT_EQ(weights(kUntied), ends) << saved;
  }
}

// Sums over data parallel ranks, stage copies or tied embeddings have another order: not equal.
TEST_F(PipelineCheckpoint, LayoutsThatSumOtherwiseGoOnWithinRounding) {
  train("dp=1", 4, kTiedCheckpoint);
  const std::vector<double> whole = losses();
  for (const char* saved : {"pp=4 schedule=1f1b", "pp=2 schedule=dualpipe"})
    for (const char* next : {"dp=2", "pp=2 schedule=v-half shard=2 zero=3"}) {
      train(saved, 2, kTiedCheckpoint);
      go_on(next, 3, kTiedCheckpoint);
      go_on(saved, 4, kTiedCheckpoint);
      const std::vector<double> got = losses();
      ASSERT_EQ(got.size(), whole.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], whole[i], 1e-4 * whole[i]) << saved << ", then " << next;
    }
}

// Every rank that holds a weight has the checkpoint's bits: tied embeddings, both stage copies.
TEST_F(PipelineCheckpoint, CopiesOfAWeightAreEqualAfterStepsAndAfterAResume) {
  for (const char* text : {"pp=4 schedule=1f1b", "pp=4 schedule=dualpipe",
                           "pp=2 schedule=dualpipe shard=2 zero=1", "pp=2 dp=2"}) {
    train(text, 3, kTiedCheckpoint);
    const Tensors saved = weights(kTiedCheckpoint);
    const auto expect_same = [&](Trainer& trainer) {
      trainer.model().sharded().await_weights();
      trainer.model().sharded().for_each_kept(
          [&](const Param& param, const Range& range, const Tensor& value) {
            std::vector<float> own(static_cast<size_t>(range.size()));
            copy_to_host<float>(trainer.stream(), own, value);
            const std::vector<float>& all = saved.at(param.name);
            const auto begin = all.begin() + range.begin;
            EXPECT_EQ(own, std::vector<float>(begin, begin + range.size()))
                << text << ", " << param.name << " on rank " << trainer.mesh().world().rank();
          });
    };
    on_ranks(layout(text, 3, kTiedCheckpoint).config, [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < 3; ++step) trainer.train_step();
      expect_same(trainer);
    });
    on_ranks(layout(text, 3, kTiedCheckpoint).config, [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.resume(resolve_checkpoint(disk_, dir_ / "out/checkpoints"));
      expect_same(trainer);
    });
  }
}

// Forward only, on weights with the same bits.
TEST_F(PipelineCheckpoint, EvaluatesToTheBitsOfOneRank) {
  const auto evaluate = [&](const std::string& text) {
    std::vector<Evaluation> all(8);
    Config config = layout(text, 2, kTiedCheckpoint).config;
    config.train.eval_every = 1;
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
      all[static_cast<size_t>(trainer.mesh().world().rank())] = trainer.evaluate();
    });
    return all;
  };
  const Evaluation alone = evaluate("dp=1")[0];
  EXPECT_EQ(alone.tokens, 5 * 8);
  for (const char* text : {"pp=2", "pp=4 schedule=zb-v", "pp=4 schedule=dualpipe",
                           "pp=2 schedule=looped-bfs chunks=4"}) {
    const std::vector<Evaluation> all = evaluate(text);
    for (size_t rank = 0; rank < static_cast<size_t>(text[3] - '0'); ++rank) {
      EXPECT_EQ(all[rank].loss, alone.loss) << text << ", rank " << rank;
      EXPECT_EQ(all[rank].tokens, alone.tokens) << text << ", rank " << rank;
    }
  }
}

class RacedCheckpoint : public PipelineCheckpoint {};

TEST_F(RacedCheckpoint, OfAPipelineIsSavedAndReadBesideTheOtherRanks) {
  for (const char* text : {"pp=2 schedule=dualpipe", "pp=2 shard=2 zero=3 schedule=zb-v"}) {
    train(text, 1, kTiedCheckpoint);
    go_on(text, 2, kTiedCheckpoint);
  }
}

}  // namespace
}  // namespace sextant
