#include <gtest/gtest.h>

#include <regex>

#include <map>
#include <nlohmann/json.hpp>

#include "base/faulty_storage.h"
#include "base/parse.h"
#include "checkpoint/directory.h"
#include "checkpoint/load.h"
#include "program/groups.h"
#include "support/expect_error.h"
#include "support/training_test.h"

namespace sextant {
namespace {

constexpr const char* kRanksConfig = R"(
[model]
family = "gpt2"
layers = 2
hidden = 16
heads = 2
ffn = 24
vocab = 259
seq = 16

[batch]
micro = 1

[train]
steps = 3
)";

class Ranks : public TrainingTest {
 protected:
  ResolvedConfig config(const std::string& layout, std::vector<std::string> overrides = {}) {
    for (const std::string& part : split(layout, ' ')) overrides.push_back("parallel." + part);
    overrides.push_back("run.out=" + (dir_ / "out"));
    return parse_config(kRanksConfig, "test", overrides);
  }
  // Elements that all ranks together send in the second step.
  int64_t elements_sent(const Config& config) {
    std::atomic<int64_t> sum{0};
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      const StepRecord record = trainer.train_step();
      EXPECT_EQ(record.sent.total().bytes, 4 * record.sent.total().elements);
      sum += record.sent.total().elements;
    });
    return sum;
  }
};

// Over all n ranks a reduce-scatter or an all-gather of P elements sends (n - 1) * P.
TEST_F(Ranks, SendTwoTwoTwoAndThreeTimesTheParameters) {
  for (const int n : {2, 3, 4, 8}) {
    const std::string ranks = std::to_string(n);
    const Config ddp = config("dp=" + ranks).config;
    const int64_t unit = (n - 1) * make_blueprint(ddp.model).stored_parameters();
    EXPECT_EQ(elements_sent(ddp), 2 * unit) << n;
    for (const int zero : {1, 2, 3})
      EXPECT_EQ(elements_sent(config("shard=" + ranks + " zero=" + std::to_string(zero)).config),
                (zero == 3 ? 3 : 2) * unit)
          << n << " ranks, zero " << zero;
  }
}

TEST_F(Ranks, EachSendsItsShareToTheElement) {
  const Config zero3 = config("shard=4 zero=3").config;
  const GroupPlan plan = make_groups(make_blueprint(zero3.model));
  on_ranks(zero3, [&](Trainer& trainer, const MemoryEstimate&) {
    const StepRecord record = trainer.train_step();
    int64_t wanted = 0;
    for (const GroupSpec& group : plan.groups) {
      const int64_t own = even_part(group.elements, 4, trainer.mesh().world().rank()).size();
      wanted += 2 * 3 * own + (group.elements - own);
    }
    EXPECT_EQ(record.sent.total().elements, wanted);
  });
}

TEST_F(Ranks, SendByTheFormulasOfAccumulation) {
  const int n = 3, m = 4;
  const std::vector<std::string> batch = {"batch.accumulation=4"};
  const int64_t unit = (n - 1) * make_blueprint(config("dp=3").config.model).stored_parameters();
  EXPECT_EQ(elements_sent(config("dp=3", batch).config), 2 * unit);
  EXPECT_EQ(elements_sent(config("shard=3 zero=1", batch).config), 2 * unit);
  EXPECT_EQ(elements_sent(config("shard=3 zero=2", batch).config), (m + 1) * unit);
  EXPECT_EQ(elements_sent(config("shard=3 zero=3", batch).config), 3 * m * unit);
}

TEST_F(Ranks, ReplicasAddTheSumOfTheirShards) {
  const int64_t all = make_blueprint(config("dp=2").config.model).stored_parameters();
  // 3 ranks shard within each of 2 replicas; then 3 pairs sum their shards, once per step.
  for (const char* accumulation : {"1", "2"}) {
    const int m = accumulation[0] - '0';
    const std::vector<std::string> batch = {std::string("batch.accumulation=") + accumulation};
    EXPECT_EQ(elements_sent(config("dp=2 shard=3 zero=1", batch).config),
              2 * 2 * 2 * all + 2 * all);
    EXPECT_EQ(elements_sent(config("dp=2 shard=3 zero=3", batch).config),
              2 * 3 * m * 2 * all + 2 * all);
  }
}

// An untied embedding is not read in backward, and the head's forward and backward are one use.
TEST_F(Ranks, GatherAWeightOnceForEachWindowOfUse) {
  const Config untied = config("shard=2 zero=3", {"model.tied=false"}).config;
  const Blueprint blueprint = make_blueprint(untied.model);
  const GroupPlan plan = make_groups(blueprint);
  const int64_t all = blueprint.stored_parameters();
  const int64_t once = plan.groups.front().elements + plan.groups.back().elements;
  EXPECT_EQ(elements_sent(untied), 3 * all - once);
}

class SlowRanks : public Ranks {};

TEST_F(SlowRanks, NeedTheMemoryThatWasPredictedToTheByte) {
  for (const char* layout : {"dp=1", "dp=2", "shard=2 zero=1", "shard=2 zero=2", "shard=2 zero=3",
                             "shard=3 zero=1", "shard=3 zero=2", "shard=3 zero=3", "shard=4 zero=1",
                             "shard=4 zero=2", "shard=4 zero=3", "shard=8 zero=2", "shard=8 zero=3",
                             "dp=2 shard=2 zero=1", "dp=2 shard=2 zero=2", "dp=2 shard=4 zero=3"})
    for (const char* accumulation : {"1", "2", "4"})
      for (const char* model : {"model.family=gpt2", "model.family=llama", "model.tied=false"}) {
        const Config tested =
            config(layout, {model, std::string("batch.accumulation=") + accumulation}).config;
        on_ranks(tested, [&](Trainer& trainer, const MemoryEstimate& predicted) {
          for (int step = 0; step < 2; ++step) trainer.train_step();
          const Arena& arena = trainer.arena();
          const CategoryBytes wanted = {predicted.weights,   predicted.gradients,
                                        predicted.optimizer, predicted.activations,
                                        predicted.workspace, predicted.communication};
          EXPECT_EQ(arena.peaks(), wanted) << layout << " " << accumulation << " " << model;
          EXPECT_EQ(arena.peak(), predicted.peak) << layout << " " << accumulation << " " << model;
        });
      }
}

TEST_F(Ranks, ZeroTwoPeaksAtItsShardAndOneBucket) {
  const Config zero2 = config("shard=4 zero=2", {"model.tied=false"}).config;
  const GroupPlan plan = make_groups(make_blueprint(zero2.model));
  on_ranks(zero2, [&](Trainer& trainer, const MemoryEstimate&) {
    trainer.train_step();
    int64_t shard = 0, bucket = 0;
    for (const GroupSpec& group : plan.groups) {
      shard += even_part(group.elements, 4, trainer.mesh().world().rank()).size();
      bucket = std::max(bucket, group.elements);
    }
    EXPECT_EQ(trainer.arena().peak(Category::Gradients), 4 * (shard + bucket));
    EXPECT_EQ(trainer.arena().peak(Category::Communication), 4 * bucket);
  });
}

TEST_F(Ranks, GoOnFromACheckpointOfAnyLayout) {
  const auto train = [&](const std::string& layout, int steps, const RunOptions& options) {
    return run(config(layout, {"batch.global=8", "batch.micro=1", "optim.schedule=constant",
                               "train.steps=" + std::to_string(steps), "train.eval_every=2"}),
               options);
  };
  const RunResult whole = train("dp=1", 4, {});
  RunOptions resume;
  resume.resume = true;
  for (const char* layout : {"dp=4", "shard=3 zero=3", "dp=2 shard=2 zero=2", "shard=2 zero=1"}) {
    train("dp=8", 2, {});
    const RunResult second = train(layout, 4, resume);
    EXPECT_EQ(second.memory.size(),
              static_cast<size_t>(world_size(config(layout).config.parallel)));
    EXPECT_EQ(second.steps, 4);
    EXPECT_NEAR(*second.loss_last, *whole.loss_last, 1e-5 * *whole.loss_last) << layout;
    EXPECT_NEAR(*second.eval_loss, *whole.eval_loss, 1e-5 * *whole.eval_loss) << layout;
  }
}

// CI runs these under ThreadSanitizer.
class RacedRanks : public Ranks {};

TEST_F(RacedRanks, StepEvaluateSaveAndResumeInEveryMode) {
  RunOptions resume;
  resume.resume = true;
  for (const char* layout :
       {"dp=4", "shard=4 zero=1", "shard=4 zero=2", "shard=4 zero=3", "dp=2 shard=2 zero=3"}) {
    const std::vector<std::string> settings = {"batch.accumulation=2", "train.eval_every=1"};
    run(config(layout, settings));
    std::vector<std::string> longer = settings;
    longer.push_back("train.steps=4");
    EXPECT_EQ(run(config(layout, longer), resume).steps, 4) << layout;
  }
}

TEST_F(Ranks, TheSameLayoutGivesTheSameBitsAgain) {
  const auto ends = [&] {
    const RunResult result = run(config("dp=2 shard=2 zero=3", {"batch.accumulation=2"}));
    return read_manifest(disk_, resolve_checkpoint(disk_, result.checkpoint)).files;
  };
  EXPECT_EQ(ends(), ends());
}

TEST_F(Ranks, LeaveATraceOfWorkAndWaits) {
  run(config("shard=2 zero=3", {"run.trace=true", "train.steps=2"}));
  double exposed = 0, waited = 0;
  for (const std::string& line : split(read_text(disk_, dir_ / "out/metrics.jsonl"), '\n'))
    if (!line.empty()) exposed += nlohmann::json::parse(line)["comm_exposed_s"].get<double>();
  std::map<std::string, int> names;
  const nlohmann::json trace = nlohmann::json::parse(read_text(disk_, dir_ / "out/trace.json"));
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++names[event["name"]];
    // Exposed communication of the first rank: waits, and communication on its own thread.
    if (event["pid"] == 0 && event["tid"] == 0 && event["cat"] != "compute")
      waited += event["dur"].get<double>() * 1e-6;
  }
  EXPECT_EQ(names["forward layers.1.mlp"], 2 * 2);  // ranks x steps
  EXPECT_EQ(names["backward embedding"], 2 * 2);
  EXPECT_EQ(names["optimizer"], 2 * 2);
  EXPECT_GT(exposed, 0);
  EXPECT_GE(waited, 0.999 * exposed);  // includes waits between steps
}

TEST_F(Ranks, AnErrorOfAllRanksIsToldOnce) {
  try {  // diverging weights
    run(config("dp=4", {"optim.lr=1000", "optim.name=sgd", "optim.clip=0", "train.steps=50"}));
    ADD_FAILURE() << "the weights stayed finite";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.fault(), Fault::Failure) << text;
    // The same on every rank: the text of one of them, once.
    EXPECT_TRUE(std::regex_search(
        text, std::regex("^rank [0-3]: step [0-9]+: (loss|the gradient norm) is -?(inf|nan)")))
        << text;
    EXPECT_EQ(text.find("rank ", 1), std::string::npos) << text;
    EXPECT_EQ(text.find("step ", text.find("step ") + 1), std::string::npos) << text;
  }
}

// The others learn of it before the first rank has reported its own error.
TEST_F(Ranks, AFullDiskIsTheErrorOfTheRankThatWrites) {
  for (const int64_t nth : {30, 40, 50}) {
    FaultyStorage full(disk_, {StorageOp::Write, nth});
    EXPECT_ERROR(run_training(config("shard=4 zero=3", {"checkpoint.every=1"}), {},
                              {full, clock_, log_, stop_}),
                 Failure, "rank 0: cannot write ");
  }
}

TEST_F(Ranks, ARankThatStallsIsNamed) {
  EXPECT_ERROR(run(config("dp=3", {"fault.inject=stall:rank=1,step=2", "fault.deadline=0.5"})),
               Peer, "rank 1");
  EXPECT_ERROR(run(config("dp=2", {"fault.inject=stall:rank"})), Config, "takes group=, rank=");
}

TEST_F(Ranks, TheTimelinesOfAnEarlierRunAreSetAside) {
  run(config("dp=2", {"run.trace=true"}));
  EXPECT_TRUE(disk_.exists(dir_ / "out/trace.json"));
  replace_file(disk_, dir_ / "out/trace-1.json", "of a process");
  replace_file(disk_, dir_ / "out/trace-of-mine.json", "somebody's");
  run(config("dp=2"));
  EXPECT_FALSE(disk_.exists(dir_ / "out/trace.json"));
  EXPECT_TRUE(disk_.exists(dir_ / "out/previous-1/trace.json"));
  EXPECT_TRUE(disk_.exists(dir_ / "out/previous-1/trace-1.json"));
  EXPECT_TRUE(disk_.exists(dir_ / "out/trace-of-mine.json"));
}

TEST_F(Ranks, ATooSmallShareOfMemoryIsRefused) {
  EXPECT_ERROR(run(config("dp=2", {"run.memory_limit=1MB"})), Memory, "rank 0 needs");
}

}  // namespace
}  // namespace sextant
