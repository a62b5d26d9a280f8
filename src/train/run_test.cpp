#include "train/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/directory_lock.h"
#include "base/faulty_storage.h"
#include "base/parse.h"
#include "checkpoint/directory.h"
#include "checkpoint/load.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/metrics.h"

namespace sextant {
namespace {

constexpr const char* kRunConfig = R"(
[model]
family = "llama"
layers = 2
hidden = 16
heads = 2
kv_heads = 1
ffn = 24
vocab = 256
seq = 16
tied = true

[batch]
global = 4
micro = 2

[optim]
lr = 1e-2
warmup = 2

[train]
steps = 6
eval_every = 3
eval_batches = 2

[checkpoint]
every = 2
)";

class RunTraining : public testing::Test {
 protected:
  RunResult run(std::vector<std::string> overrides = {}, RunOptions options = {}) {
    return run_on(disk_, std::move(overrides), options);
  }
  RunResult run_on(Storage& storage, std::vector<std::string> overrides, RunOptions options) {
    overrides.insert(overrides.begin(), "run.out=" + dir_.path());
    return run_training(parse_config(kRunConfig, "test", overrides), options,
                        {storage, clock_, log_, stop_});
  }
  std::vector<nlohmann::json> metrics() {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : split(read_text(disk_, dir_ / "metrics.jsonl"), '\n'))
      if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  static RunOptions resume() {
    RunOptions options;
    options.resume = true;
    return options;
  }

  TempDir dir_;
  DiskStorage disk_;
  SystemClock clock_;
  Log log_{LogLevel::Quiet, Color::Never};
  std::atomic<bool> stop_{false};
};

TEST_F(RunTraining, LowersTheLossAndLeavesALineOfMetricsPerStep) {
  const RunResult result = run({"train.steps=30"});
  EXPECT_LT(*result.loss_last, *result.loss_first);
  const std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 30u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    for (const char* key :
         {"loss", "grad_norm", "lr", "tokens_per_s", "tflops", "mfu", "step_s", "mem_peak"})
      EXPECT_TRUE(lines[i].contains(key)) << key;
    EXPECT_EQ(lines[i].contains("eval_loss"), (i + 1) % 3 == 0);
  }
  EXPECT_EQ(lines.back()["loss"], *result.loss_last);
}

TEST_F(RunTraining, GivesTheSameBitsTwiceAndOnAnyNumberOfThreads) {
  const double once = *run({"run.threads=1"}).loss_last;
  EXPECT_EQ(*run({"run.threads=1"}).loss_last, once);
  EXPECT_EQ(*run({"run.threads=2"}).loss_last, once);
  EXPECT_NE(*run({"train.seed=1"}).loss_last, once);
}

TEST_F(RunTraining, AResumedRunEndsInTheBitsOfAnUnbrokenOne) {
  const double whole = *run().loss_last;
  const double eval = metrics().back()["eval_loss"];
  stop_ = true;  // ends after the first step, with a checkpoint
  const RunResult stopped = run();
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 1);
  stop_ = false;
  EXPECT_EQ(*run({}, resume()).loss_last, whole);
  const std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines.back()["eval_loss"], eval);
}

TEST_F(RunTraining, ResumeCutsMetricsBackToTheCheckpoint) {
  const double whole = *run().loss_last;
  // As after a kill between step and checkpoint: metrics are ahead, the last line is truncated.
  disk_.remove_all(dir_ / "checkpoints/step-00000006");
  replace_file(disk_, dir_ / "checkpoints/latest", "step-00000004\n");
  write_text(*disk_.create(dir_ / "metrics.jsonl", OpenMode::Append), "{\"step\": 7, \"lo");
  const RunResult again = run({}, resume());
  EXPECT_EQ(again.steps, 6);
  EXPECT_EQ(*again.loss_last, whole);
  EXPECT_EQ(metrics().size(), 6u);
}

TEST_F(RunTraining, ResumingAFinishedRunDoesNothing) {
  run();
  const std::string before = read_text(disk_, dir_ / "metrics.jsonl");
  const RunResult again = run({}, resume());
  EXPECT_EQ(again.steps, 6);
  EXPECT_FALSE(again.loss_last);
  EXPECT_EQ(read_text(disk_, dir_ / "metrics.jsonl"), before);
}

TEST_F(RunTraining, ResumingNothingIsRefusedAndChangesNothing) {
  EXPECT_ERROR(run({}, resume()), Data, "checkpoints");
  EXPECT_FALSE(disk_.exists(dir_ / "metrics.jsonl"));
}

TEST_F(RunTraining, GoesOnFromTheCheckpointThatIsNamed) {
  const RunResult whole = run({"checkpoint.keep=3"});
  const auto from = [&](const std::string& which) {
    RunOptions options = resume();
    options.resume_from = which;
    return run({"checkpoint.keep=3"}, options);
  };
  const RunResult again = from("step-2");
  EXPECT_EQ(again.loss_last, whole.loss_last);
  EXPECT_EQ(metrics().size(), 6u);
  EXPECT_EQ(from("step-00000004").loss_last, whole.loss_last);
  EXPECT_ERROR(from("step-3"), Data, "has no step-00000003; whole there, to be named instead: ");
  EXPECT_ERROR(from("4"), Data, "takes latest, auto or a name such as step-8");
}

TEST_F(RunTraining, DamagedCheckpointsAreNamedAndPassedOverOnlyWhenTold) {
  const RunResult whole = run({"checkpoint.keep=3"});
  const std::string checkpoints = dir_ / "checkpoints", latest = checkpoints + "/step-00000006";
  const auto from = [&](const std::string& which) {
    RunOptions options = resume();
    options.resume_from = which;
    return run({"checkpoint.keep=3", "train.steps=8"}, options);
  };
  const auto flip = [&](const std::string& checkpoint) {  // one bit in the middle of the weights
    const std::string path = checkpoint + "/weights-00000.safetensors";
    std::string bytes = read_text(disk_, path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    replace_file(disk_, path, bytes);
  };
  flip(latest);
  EXPECT_ERROR(from("latest"), Data,
               "; whole there, to be named instead: step-00000002, step-00000004");
  EXPECT_EQ(from("auto").steps, 8);  // over step 4
  EXPECT_EQ(metrics().size(), 8u);
  for (const CheckpointInfo& info : list_checkpoints(disk_, checkpoints, Check::Sizes))
    flip(info.path);
  EXPECT_ERROR(from("auto"), Data, "no whole checkpoint is there, and none is started over");
}

TEST_F(RunTraining, AutoStartsAfreshOnlyWhereNothingIs) {
  RunOptions options = resume();
  options.resume_from = std::string(kAutoCheckpoint);
  EXPECT_EQ(run({}, options).steps, 6);
  EXPECT_EQ(metrics().size(), 6u);
}

TEST_F(RunTraining, AManifestOfAnotherStepIsRefused) {
  run({"checkpoint.keep=3"});
  const std::string checkpoints = dir_ / "checkpoints";
  disk_.remove_all(checkpoints + "/step-00000006");
  disk_.rename(checkpoints + "/step-00000002", checkpoints + "/step-00000006");
  EXPECT_ERROR(run({}, resume()), Data, "its manifest is of step 2; whole there");
}

TEST_F(RunTraining, TwoRunsNeverWriteOneDirectory) {
  run({"train.steps=2"});
  const std::string before = read_text(disk_, dir_ / "metrics.jsonl");
  const auto held = [&](const std::string& directory) {
    const DirectoryLock other(directory, [](const std::string&) {});
    EXPECT_ERROR(run({"fault.deadline=0.2", "checkpoint.dir=" + (dir_ / "checkpoints")}), Failure,
                 directory + " is in use by process ");
    EXPECT_ERROR(run({"fault.deadline=0.2", "checkpoint.dir=" + (dir_ / "checkpoints")}, resume()),
                 Failure, directory + " is in use by process ");
  };
  held(dir_.path());
  held(dir_ / "checkpoints");
  {
    const DirectoryLock other(dir_ / "checkpoints", [](const std::string&) {});
    EXPECT_ERROR(run({"fault.deadline=0.2"}), Failure,
                 (dir_ / "checkpoints") + " is in use by process ");
  }
  EXPECT_EQ(read_text(disk_, dir_ / "metrics.jsonl"), before);
  EXPECT_EQ(run({}, resume()).steps, 6);  // free again
}

TEST_F(RunTraining, AFreshStartSetsTheOldFilesAside) {
  run();
  const std::string before = read_text(disk_, dir_ / "metrics.jsonl");
  run({"train.seed=9"});
  EXPECT_EQ(read_text(disk_, dir_ / "previous-1/metrics.jsonl"), before);
  EXPECT_TRUE(disk_.exists(dir_ / "previous-1/checkpoints/latest"));
  run();
  EXPECT_TRUE(disk_.exists(dir_ / "previous-2/metrics.jsonl"));
}

TEST_F(RunTraining, StartsFromTheWeightsOfAnotherRun) {
  TempDir other;
  const double first = *run({"run.out=" + other.path(), "train.steps=20"}).loss_first;
  RunOptions options;
  options.from = other / "checkpoints";
  const RunResult result = run({}, options);
  EXPECT_LT(*result.loss_first, first);
  EXPECT_EQ(result.steps, 6);
}

TEST_F(RunTraining, ADryRunAllocatesNothingAndPredictsWhatARunMeasures) {
  RunOptions options;
  options.dry_run = true;
  for (const char* policy : {"keep", "chunked"}) {
    const std::vector<std::string> overrides = {std::string("memory.logits=") + policy,
                                                "run.threads=2"};
    const RunResult predicted = run(overrides, options);
    const RunResult measured = run(overrides);
    EXPECT_EQ(predicted.memory.at(0).categories, measured.memory.at(0).categories) << policy;
    EXPECT_EQ(predicted.memory.at(0).peak, measured.memory.at(0).peak) << policy;
  }
}

TEST_F(RunTraining, ARunSendsAlongEachAxisWhatADryRunPredicts) {
  RunOptions dry;
  dry.dry_run = true;
  const std::vector<std::string> layout = {"parallel.dp=2",   "parallel.shard=2", "parallel.pp=2",
                                           "parallel.zero=2", "train.steps=3",    "batch.micro=1"};
  const StepSends predicted = run(layout, dry).sends, sent = run(layout).sends;
  EXPECT_EQ(sent.first, predicted.first);
  EXPECT_EQ(sent.all, predicted.all);
  const nlohmann::json by_axis = metrics().back().at("comm_by_axis");
  std::vector<std::string> seen;
  for_each_sent(sent.first, [&](const AxisTraffic& axis, Operation operation, const Traffic& own) {
    seen.emplace_back(axis.axis());
    EXPECT_EQ(by_axis.at(axis.axis()).at(name_of(operation)).at("elements"), own.elements);
    EXPECT_GT(sent.all.of(axis.axis(), operation).bytes, own.bytes);
  });
  for (const char* axis : {"dp", "shard", "pp"})
    EXPECT_EQ(std::ranges::count(seen, axis) > 0, by_axis.contains(axis)) << axis;
  EXPECT_TRUE(by_axis.contains("pp"));
  EXPECT_TRUE(by_axis.contains("shard"));
}

TEST_F(RunTraining, ATimelineHasStepsAndTheBytesAndArrowsOfMessages) {
  run({"parallel.pp=2", "parallel.dp=2", "train.steps=3", "train.eval_every=0", "run.trace=true"});
  std::map<uint64_t, std::vector<nlohmann::json>> messages;
  int steps = 0;
  const nlohmann::json trace = nlohmann::json::parse(read_text(disk_, dir_ / "trace.json"));
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") messages[event["id"]].push_back(event);
    if (event["ph"] != "X") continue;
    steps += event["cat"] == "step";
    if (event["cat"] != "comm") continue;
    const std::string name = event["name"];
    ASSERT_TRUE(event.contains("args")) << event;
    if (!name.starts_with("receive ")) continue;
    EXPECT_EQ(event["args"]["bytes"], 2 * 16 * 16 * 4) << event;  // of a micro-batch
  }
  EXPECT_EQ(steps, 3 * 4);
  constexpr int kMicros = 1, kDirections = 2, kPipelines = 2, kSteps = 3;
  EXPECT_EQ(messages.size(), kMicros * kDirections * kPipelines * kSteps);
  for (const auto& [id, ends] : messages) {
    ASSERT_EQ(ends.size(), 2u) << id;
    const auto& [from, to] =
        ends[0]["ph"] == "s" ? std::tie(ends[0], ends[1]) : std::tie(ends[1], ends[0]);
    EXPECT_EQ(to["ph"], "f");
    EXPECT_EQ(std::abs(from["pid"].get<int>() - to["pid"].get<int>()), 2) << from << to;
    EXPECT_LE(from["ts"], to["ts"]) << from << to;
  }
}

TEST_F(RunTraining, WhatDoesNotFitIsRefusedBeforeTheStart) {
  EXPECT_ERROR(run({"run.memory_limit=1MiB"}), Memory, "may use 1.0 MiB");
  EXPECT_FALSE(disk_.exists(dir_ / "metrics.jsonl"));
}

TEST_F(RunTraining, AFullDiskEndsTheRunWithWhatWasWrittenReadable) {
  StorageFault fault;
  fault.nth = 6;
  fault.torn_bytes = 10;
  FaultyStorage full(disk_, fault);
  EXPECT_ERROR(run_on(full, {"run.tensorboard=false", "checkpoint.every=0"}, {}), Failure,
               "No space left on device");
  cut_metrics(disk_, dir_ / "metrics.jsonl", 100);
  EXPECT_GE(metrics().size(), 3u);
}

using SlowRunTraining = RunTraining;

TEST_F(SlowRunTraining, AfterAKillAtAnyWriteTheRunGoesOnAsIfNothingHadHappened) {
  StorageFault never;
  never.nth = int64_t{1} << 40;
  FaultyStorage counting(disk_, never);
  const double whole = *run_on(counting, {}, {}).loss_last;
  for (const StorageOp op : {StorageOp::Write, StorageOp::Rename}) {
    for (int64_t nth = 1; nth <= counting.count(op); nth += 5) {
      for (const std::string& name : disk_.list(dir_.path())) disk_.remove_all(dir_ / name);
      StorageFault kill;
      kill.op = op;
      kill.nth = nth;
      kill.torn_bytes = 7;
      kill.after = AfterFault::Dead;
      FaultyStorage dying(disk_, kill);
      EXPECT_ERROR(run_on(dying, {}, {}), Failure, "");
      const bool saved = disk_.exists(dir_ / "checkpoints/latest");
      const RunResult again = run({}, saved ? resume() : RunOptions{});
      EXPECT_EQ(again.steps, 6) << "write " << nth;
      EXPECT_EQ(again.loss_last.value_or(whole), whole) << "write " << nth;
      EXPECT_EQ(metrics().size(), 6u) << "write " << nth;
    }
  }
}

TEST_F(RunTraining, ResumeRefusesAModelOfTheSameShapesThatComputesSomethingElse) {
  run();
  EXPECT_ERROR(run({"model.heads=4", "model.kv_heads=2"}, resume()), Data,
               "model.heads = 2, not 4");
  EXPECT_ERROR(run({"model.rope_theta=777"}, resume()), Data, "model.rope_theta");
  EXPECT_ERROR(run({"train.seed=3"}, resume()), Data, "train.seed = 0, not 3");
}

TEST_F(RunTraining, ResumeWithAnotherBatchGoesOnWhereTheDataStood) {
  stop_ = true;
  run();  // one step: samples 0 ... 3
  stop_ = false;
  run({"batch.global=2", "train.steps=2", "checkpoint.keep=5"}, resume());
  const Manifest manifest = read_manifest(disk_, resolve_checkpoint(disk_, dir_ / "checkpoints"));
  EXPECT_EQ(manifest.state.cursor, (DataCursor{0, 6}));
}

TEST_F(RunTraining, AFreshStartSetsCheckpointsOfAnotherDirectoryAside) {
  TempDir other;
  const std::vector<std::string> there = {"checkpoint.dir=" + other.path()};
  run(there);
  run({there[0], "train.steps=2"});
  EXPECT_TRUE(disk_.exists(other / "previous-1/step-00000006"));
  EXPECT_FALSE(disk_.exists(other / "step-00000006"));
  EXPECT_EQ(read_manifest(disk_, resolve_checkpoint(disk_, other.path())).state.step, 2);
}

TEST_F(RunTraining, TooLittleHeldOutDataIsRefusedBeforeTheFirstStep) {
  EXPECT_ERROR(run({"data.eval_fraction=0.00001", "batch.global=256", "batch.micro=256"}), Data,
               "an evaluation needs batch.micro = 256");
}

TEST_F(RunTraining, ResumeRefusesAnotherModel) {
  run();
  EXPECT_ERROR(run({"model.hidden=32", "model.head_dim=8"}, resume()), Data,
               "model.hidden = 16, not 32");
}

}  // namespace
}  // namespace sextant
