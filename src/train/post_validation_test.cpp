#include "train/post_validation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "base/parse.h"
#include "fault/deadline.h"
#include "support/counts.h"
#include "support/expect_error.h"
#include "support/training_test.h"
#include "tensor/copy.h"
#include "train/verify.h"

namespace sextant {
namespace {

constexpr const char* kValidatedConfig = R"(
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

[optim]
lr = 1e-2

[train]
steps = 8

[run]
threads = 1

[fault]
deadline = 60
)";

// Results of some steps.
struct Trained {
  std::vector<double> losses, norms;
  std::map<int, std::vector<float>> state;  // weights and moments per rank
  int64_t forwards = 0;                     // over all ranks
  bool operator==(const Trained& other) const {
    return losses == other.losses && norms == other.norms && state == other.state;
  }
};

class PostValidated : public TrainingTest {
 protected:
  using Settings = std::vector<std::string>;

  ResolvedConfig resolved(const std::string& layout, const std::string& schedule, int micros,
                          Settings settings = {}) {
    for (const std::string& part : split(layout, ' ')) settings.push_back("parallel." + part);
    settings.push_back("parallel.schedule=" + schedule);
    if (schedule.starts_with("interleaved") || schedule.starts_with("looped"))
      settings.push_back("parallel.chunks=2");
    settings.push_back("batch.accumulation=" + std::to_string(micros));
    settings.push_back("run.out=" + (dir_ / "out"));
    return parse_config(kValidatedConfig, "test", settings);
  }
  static Config validated(Config config) {
    config.optim.post_validation = true;
    return config;
  }

  static std::vector<float> state_of(Trainer& trainer) {
    std::vector<float> all;
    const auto add = [&](const Tensor& tensor) {
      const size_t begin = all.size();
      all.resize(begin + static_cast<size_t>(tensor.elements()));
      copy_to_host<float>(trainer.stream(), std::span(all).subspan(begin), tensor);
    };
    trainer.model().sharded().await_weights();
    trainer.model().sharded().for_each_kept(
        [&](const Param&, const Range&, const Tensor& value) { add(value); });
    for (const NamedTensor& moment : trainer.optimizer().state()) add(moment.tensor);
    return all;
  }

  Trained train(const Config& config) {
    Trained out;
    std::mutex mutex;
    std::atomic<int64_t> forwards{0};
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
      std::vector<double> losses, norms;
      const auto take = [&](const StepRecord& record) {
        EXPECT_EQ(record.step, static_cast<int64_t>(losses.size()) + 1);
        losses.push_back(record.loss);
        norms.push_back(record.grad_norm);
      };
      trainer.on_record = take;
      trainer.executor().on_action = [&](const Action& action) {
        if (action.kind == Kind::F) ++forwards;
      };
      while (trainer.steps_done() < config.train.steps)
        if (const std::optional<StepRecord> record = trainer.make_step()) take(*record);
      if (const std::optional<StepRecord> record = trainer.finish_update()) take(*record);
      const std::lock_guard lock(mutex);
      const int rank = trainer.mesh().world().rank();
      out.state[rank] = state_of(trainer);
      if (out.losses.empty()) {
        out.losses = losses;
        out.norms = norms;
      }
      EXPECT_EQ(losses, out.losses) << "rank " << rank;
      EXPECT_EQ(norms, out.norms) << "rank " << rank;
    });
    out.forwards = forwards;
    return out;
  }

  // Number of steps that this clipping limit clips.
  static int64_t clipped(const Trained& trained, double clip) {
    return std::ranges::count_if(trained.norms, [&](double norm) { return norm > clip; });
  }

  // Without a limit in reach, with one that clips every step, and with one in between.
  void expect_the_same_bits(const std::string& layout, const std::string& schedule, int micros,
                            const Settings& settings = {}) {
    Config config = resolved(layout, schedule, micros, settings).config;
    const std::string what = layout + " " + schedule;
    config.optim.clip = 1e9;
    const Trained never = train(config), never_ahead = train(validated(config));
    EXPECT_TRUE(never == never_ahead) << what << ", never";
    EXPECT_EQ(never.forwards, never_ahead.forwards) << what;
    std::vector<double> norms = never.norms;
    std::ranges::sort(norms);
    for (const double clip : {1e-3, norms[norms.size() / 2]}) {
      config.optim.clip = clip;
      const Trained some = train(config), some_ahead = train(validated(config));
      EXPECT_TRUE(some == some_ahead) << what << ", clip " << clip;
      EXPECT_EQ(some.losses, some_ahead.losses) << what << ", clip " << clip;
      EXPECT_EQ(some.norms, some_ahead.norms) << what << ", clip " << clip;
      EXPECT_GT(some_ahead.forwards, some.forwards) << what << ", clip " << clip;
      EXPECT_GT(clipped(some, clip), 0) << what;
      EXPECT_LT(clipped(some, clip), config.train.steps + (clip == 1e-3 ? 1 : 0)) << what;
    }
  }

  void expect_memory(const Config& config) {
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate& predicted) {
      for (int step = 0; step < 3; ++step) trainer.make_step();
      trainer.finish_update();
      const CategoryBytes wanted = {predicted.weights,   predicted.gradients,
                                    predicted.optimizer, predicted.activations,
                                    predicted.workspace, predicted.communication};
      EXPECT_EQ(trainer.arena().peaks(), wanted)
          << config.parallel.schedule << " zero " << config.parallel.zero << " rank "
          << trainer.mesh().world().rank();
      EXPECT_EQ(trainer.arena().peak(), predicted.peak) << config.parallel.schedule;
    });
  }
};

TEST_F(PostValidated, StepsGiveTheBitsOfWaitingOnes) {
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v"})
    expect_the_same_bits("pp=2", schedule, 4, {"train.steps=5"});
}

TEST_F(PostValidated, StepsOfShardsGiveTheBitsOfWaitingOnes) {
  for (const char* layout : {"pp=2 shard=2 zero=1", "pp=2 shard=2 zero=3"})
    expect_the_same_bits(layout, "1f1b", 2, {"train.steps=4"});
}

// Rank 1 needs for its first backward a forward that rank 0 runs after its own first backward: when
// rank 0 restarts the step instead, rank 1 receives zeros in its place.
TEST_F(PostValidated, StepsOfARankThatGoesBackEarlyGiveTheBitsOfWaitingOnes) {
  const std::string path = dir_ / "early.csv";
  replace_file(disk_, path,
               "name=early,stages=4,micros=2,placement=v\n"
               "0F0,3F0,3B0,0F1,3F1,3B1,0B0,0B1\n"
               "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
  expect_the_same_bits("pp=2", path, 2);
}

class SlowPostValidated : public PostValidated {};

TEST_F(SlowPostValidated, EveryScheduleGivesTheBitsOfWaiting) {
  GridSample sample(3);
  for (const char* schedule :
       {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-auto",
        "zb-v", "v-half", "v-min", "dualpipe", "dualpipe-v"})
    for (const char* tied : {"model.tied=true", "model.tied=false"}) {
      if (sample.takes()) expect_the_same_bits("pp=2", schedule, 5 + (schedule[0] == 'd'), {tied});
      if (sample.takes())
        expect_the_same_bits("pp=4", schedule, 8, {tied, "model.layers=8", "train.steps=5"});
    }
  for (const char* schedule : {"1f1b", "zb-h2", "zb-v", "interleaved"})
    expect_the_same_bits("pp=3", schedule, 7, {"model.layers=6"});
}

TEST_F(SlowPostValidated, EveryDivisionOfTheStateGivesTheBitsOfWaiting) {
  GridSample sample(7);
  for (const char* layout : {"pp=2 dp=2", "pp=2 shard=2 zero=1", "pp=2 shard=2 zero=2",
                             "pp=2 shard=2 zero=3", "pp=2 dp=2 shard=2 zero=3"})
    for (const char* schedule :
         {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipe-v"})
      for (const char* tied : {"model.tied=true", "model.tied=false"})
        if (sample.takes()) expect_the_same_bits(layout, schedule, 4, {tied, "train.steps=5"});
}

TEST_F(SlowPostValidated, OtherOptimizersAndFamiliesGiveTheBitsOfWaiting) {
  expect_the_same_bits("pp=2", "zb-h1", 4, {"optim.name=sgd", "optim.momentum=0.9"});
  expect_the_same_bits("pp=2", "zb-h1", 4, {"optim.name=sgd"});
  expect_the_same_bits("pp=2", "zb-v", 4, {"model.family=llama", "memory.logits=chunked"});
}

// CI runs these under ThreadSanitizer.
class RacedPostValidated : public PostValidated {};

TEST_F(RacedPostValidated, RanksTakeBackWhatOthersHaveBegun) {
  for (const char* layout : {"pp=2 dp=2", "pp=2 cp=2", "pp=2 tp=2 tp_overlap=true",
                             "pp=2 shard=2 zero=2", "pp=2 shard=2 zero=3"})
    for (const char* schedule : {"zb-h1", "zb-v", "dualpipe"}) {
      Config config = resolved(layout, schedule, 4, {"train.steps=3", "optim.clip=1e-3"}).config;
      EXPECT_TRUE(train(config) == train(validated(config))) << layout << " " << schedule;
    }
}

// The last rank is blocked at the end of its first step until the first rank has run a forward of
// the second one: it must do so without knowing the norm.
TEST_F(PostValidated, ForwardsOfTheNextStepRunBeforeTheLastRankHasEndedThisOne) {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2", "interleaved"})
    for (const char* clip : {"1e9", "1e-3"}) {
      const Config config = validated(
          resolved("pp=3", schedule, 6,
                   {std::string("optim.clip=") + clip, "model.layers=6", "fault.deadline=20"})
              .config);
      std::atomic<bool> is_ahead{false};
      std::atomic<int64_t> forwards{0};  // of the first rank, in its second step
      on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
        const int rank = trainer.mesh().at(Axis::Pp);
        size_t done = 0;
        const size_t all =
            preflight(config, 0).pipeline.schedule.ranks[static_cast<size_t>(rank)].size();
        trainer.executor().on_action = [&](const Action& action) {
          ++done;
          if (rank == 0 && done > all && action.kind == Kind::F) {
            ++forwards;
            is_ahead = true;
          }
          if (rank != 2 || done != all) return;
          const Deadline end(clock_, 10);
          while (!is_ahead && !end.is_over()) std::this_thread::yield();
          EXPECT_TRUE(is_ahead) << schedule << ": the first rank waits for the last";
        };
        trainer.make_step();
        trainer.make_step();
        trainer.finish_update();
      });
      EXPECT_GE(forwards, 6) << schedule;
    }
}

TEST_F(PostValidated, RanksNeedTheMemoryThatWasPredictedToTheByte) {
  for (const char* clip : {"optim.clip=1e-3", "optim.clip=1e9", "optim.clip=0"})
    for (const char* schedule : {"1f1b", "zb-h2", "zb-v", "interleaved", "dualpipe"})
      expect_memory(validated(resolved("pp=2", schedule, 4, {clip}).config));
  for (const char* zero : {"1", "2", "3"})
    expect_memory(validated(
        resolved(std::string("pp=2 shard=2 zero=") + zero, "zb-h1", 4, {"optim.clip=1e-3"})
            .config));
}

TEST_F(SlowPostValidated, EveryScheduleNeedsTheMemoryThatWasPredictedToTheByte) {
  GridSample sample(7);
  for (const char* schedule :
       {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-auto",
        "zb-v", "v-half", "v-min", "dualpipe", "dualpipe-v"})
    for (const char* layout :
         {"pp=4", "pp=4 dp=2", "pp=4 shard=2 zero=1", "pp=4 shard=2 zero=2", "pp=4 shard=2 zero=3"})
      for (const char* tied : {"model.tied=true", "model.tied=false"})
        if (sample.takes())
          expect_memory(validated(
              resolved(layout, schedule, 8, {"optim.clip=1e-3", "model.layers=8", tied}).config));
}

// The backup covers what the rank owns, and counts as optimizer state.
TEST_F(PostValidated, TheCopyCountsAsOptimizerState) {
  const Config config = resolved("pp=2 shard=2 zero=1", "1f1b", 2).config;
  Config unlimited = config;
  unlimited.optim.clip = 0;
  const Preflight plain = preflight(config, 0), ahead = preflight(validated(config), 0),
                  unclipped = preflight(validated(unlimited), 0);
  for (size_t rank = 0; rank < plain.memory.size(); ++rank) {
    EXPECT_EQ(2 * ahead.memory[rank].optimizer, 5 * plain.memory[rank].optimizer);
    EXPECT_EQ(unclipped.memory[rank].optimizer, plain.memory[rank].optimizer);
  }
}

TEST_F(PostValidated, LayoutsVerifyAsWithoutIt) {
  Log log(LogLevel::Quiet, Color::Never);
  const std::atomic<bool> stop{false};
  for (const char* schedule : {"1f1b", "zb-v"})
    for (const char* clip : {"optim.clip=1e-3", "optim.clip=1e9"})
      for (const char* layout : {"pp=2", "pp=2 shard=2 zero=2"}) {
        const Config config = resolved(layout, schedule, 2, {clip}).config;
        const RunContext context{disk_, clock_, log, stop};
        const VerifyReport waiting = verify_layout(config, {3, ""}, context),
                           ahead = verify_layout(validated(config), {3, ""}, context);
        EXPECT_EQ(summary(ahead), summary(waiting));
        EXPECT_EQ(ahead.update_max_rel, waiting.update_max_rel);
        EXPECT_EQ(ahead.bitwise, waiting.bitwise);
        EXPECT_NE(ahead.verdict, Verdict::Bug);
      }
}

TEST_F(PostValidated, AGradientThatIsNotFiniteEndsTheRunAndNamesItsStep) {
  for (const char* schedule : {"1f1b", "zb-v"})
    for (const int bad : {0, 1})
      for (const bool ahead : {false, true}) {
        Config config = resolved("pp=2", schedule, 4).config;
        config.optim.post_validation = ahead;
        const size_t all = preflight(config, 0).pipeline.schedule.ranks[0].size();
        const auto steps = [&] {
          on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
            size_t done = 0;
            trainer.executor().on_action = [&](const Action&) {
              if (++done != 2 * all || trainer.mesh().at(Axis::Pp) != bad) return;
              Tensor& gradient = trainer.model().sharded().owned().front().grad;
              std::vector<float> values(static_cast<size_t>(gradient.elements()),
                                        std::numeric_limits<float>::infinity());
              copy_from_host<float>(trainer.stream(), gradient, values);
            };
            for (int step = 0; step < 4; ++step) trainer.make_step();
          });
        };
        EXPECT_ERROR(steps(), Failure, "step 2: the gradient norm is inf; a smaller optim.lr");
      }
}

}  // namespace
}  // namespace sextant
