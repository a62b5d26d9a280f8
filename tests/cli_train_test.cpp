// `sextant train` from its first step to its end, whatever ends it.
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>

#include "support/cli.h"

namespace sextant {
namespace {

class CliTrain : public CliTest {
 protected:
  static Arguments train(const std::string& out, int steps = 4) {
    return Arguments{"train"} + tiny(out, steps);
  }
  // Shards of the last checkpoint: weights and optimizer.
  std::string final_bits(const std::string& out, const std::string& step) const {
    const std::string directory = out + "/checkpoints/" + step;
    std::string all;
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / directory))
      if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) all += read(directory + "/" + name);
    EXPECT_FALSE(all.empty());
    return all;
  }
};

TEST_F(CliTrain, ReportsInOneDocumentAndLogsOnStderr) {
  const Ran ran = run(train("r") + Arguments{"--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const nlohmann::json document = nlohmann::json::parse(ran.out);
  EXPECT_EQ(document["steps"], 4);
  EXPECT_EQ(document["checkpoint"], "r/checkpoints");
  const nlohmann::json& memory = document["memory"].at(0);
  EXPECT_EQ(memory["rank"], 0);
  EXPECT_GT(memory["peak"], 0);
  EXPECT_TRUE(memory.contains("outside"));
  int64_t sum = 0;
  for (const char* name : {"weights", "gradients", "optimizer", "activations", "workspace"})
    sum += memory["categories"][name].get<int64_t>();
  EXPECT_GE(sum, memory["peak"]);
  for (const char* text : {"parameters", "FLOPs", "peak", "MFU is", "step 1/4", "step 4/4", "loss",
                           "norm", "lr", "tok/s", "TFLOP/s", "mfu", "mem", "ms"})
    EXPECT_NE(ran.err.find(text), std::string::npos) << text;
  const std::vector<std::string> metrics = lines("r/metrics.jsonl");
  ASSERT_EQ(metrics.size(), 4u);
  for (const char* key :
       {"step", "loss", "grad_norm", "lr", "tokens_per_s", "tflops", "mfu", "step_s", "mem_peak"})
    EXPECT_TRUE(nlohmann::json::parse(metrics[0]).contains(key)) << key;
  EXPECT_EQ(nlohmann::json::parse(metrics[3])["loss"], document["loss_last"]);
  EXPECT_TRUE(exists("r/tensorboard"));
  EXPECT_TRUE(exists("r/config.toml"));
}

TEST_F(CliTrain, QuietMeansSilent) {
  const Ran ran = run(train("r") + Arguments{"-q"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err + ran.out, "");
}

TEST_F(CliTrain, ALogThatNobodyReadsStopsNoRun) {
  RunSettings unread = settings();
  unread.in_child = [] {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], 2) != 2) ::_exit(127);
    ::close(ends[0]);
  };
  EXPECT_EQ(run(train("r"), unread).code, 0);
  EXPECT_EQ(lines("r/metrics.jsonl").size(), 4u);
}

TEST_F(CliTrain, OnlyATerminalGetsAProgressBar) {
  EXPECT_EQ(run(train("a")).err.find_first_of("\r\x1b"), std::string::npos);
  RunSettings terminal = settings();
  terminal.terminal = true;
  EXPECT_NE(run(train("b"), terminal).err.find("[######"), std::string::npos);
  EXPECT_EQ(run(train("c") + Arguments{"-q"}, terminal).err, "");
}

TEST_F(CliTrain, ADryRunLeavesNothing) {
  const nlohmann::json document = json(train("r") + Arguments{"--dry-run"});
  EXPECT_EQ(document["steps"], 0);
  EXPECT_TRUE(document["loss_last"].is_null());
  EXPECT_FALSE(exists("r"));
  const nlohmann::json measured = json(train("r"));
  EXPECT_EQ(document["memory"][0]["peak"], measured["memory"][0]["peak"]);
}

TEST_F(CliTrain, TwiceAndOnTwoThreadsGivesTheSameBits) {
  ASSERT_EQ(run(train("a", 8)).code, 0);
  ASSERT_EQ(run(train("b", 8)).code, 0);
  ASSERT_EQ(run(train("c", 8) + Arguments{"--run.threads=2"}).code, 0);
  ASSERT_EQ(run(train("d", 8) + Arguments{"--train.seed=1"}).code, 0);
  EXPECT_EQ(results("a").size(), 8u);
  EXPECT_EQ(results("b"), results("a"));
  EXPECT_EQ(results("c"), results("a"));
  EXPECT_NE(results("d"), results("a"));
  EXPECT_EQ(final_bits("c", "step-00000008"), final_bits("a", "step-00000008"));
}

TEST_F(CliTrain, TheConfigItLeavesGivesTheSameRun) {
  ASSERT_EQ(run(train("a")).code, 0);
  ASSERT_EQ(run({"train", "a/config.toml", "--run.out=b"}).code, 0);
  EXPECT_EQ(results("b"), results("a"));
}

TEST_F(CliTrain, ResumeNeedsACheckpointAndAFinishedRunIsDone) {
  refused(train("r") + Arguments{"--resume", "-q"}, 4, {"r/checkpoints"});
  EXPECT_FALSE(exists("r"));
  ASSERT_EQ(run(train("r")).code, 0);
  const std::string before = read("r/metrics.jsonl");
  const Ran again = run(train("r") + Arguments{"--resume"});
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("finished already"), std::string::npos) << again.err;
  EXPECT_EQ(read("r/metrics.jsonl"), before);
  EXPECT_EQ(json(train("r", 6) + Arguments{"--resume"})["steps"], 6);
  EXPECT_EQ(lines("r/metrics.jsonl").size(), 6u);
}

TEST_F(CliTrain, AFreshStartMovesTheOldRunAside) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(train("r") + Arguments{"-q"}).code, 0);
  for (const char* name : {"r/metrics.jsonl", "r/previous-1/metrics.jsonl",
                           "r/previous-2/checkpoints/latest", "r/previous-2/config.toml"})
    EXPECT_TRUE(exists(name)) << name;
  EXPECT_FALSE(exists("r/previous-3"));
}

TEST_F(CliTrain, FineTunesFromAnotherRun) {
  const nlohmann::json first = json(train("a", 30));
  const nlohmann::json second = json(train("b") + Arguments{"--from", "a/checkpoints"});
  EXPECT_LT(second["loss_first"], first["loss_first"]);
  EXPECT_EQ(second["steps"], 4);
  refused(train("c") + Arguments{"-q", "--from", "nowhere"}, 4, {"nowhere"});
}

TEST_F(CliTrain, ASignalSavesAndResumeEndsInTheBitsOfAnUnbrokenRun) {
  ASSERT_EQ(run(train("whole", 120) + Arguments{"-q"}).code, 0);
  for (const int number : {SIGTERM, SIGINT}) {
    const std::string out = "broken" + std::to_string(number);
    Running running(command(train(out, 120) + Arguments{"--json"}), settings());
    ASSERT_TRUE(running.read_until("step   2/120"));
    running.kill(number);
    const Ran ran = running.finish();
    EXPECT_EQ(ran.code, 6) << ran.err;
    EXPECT_NE(ran.err.find("go on with --resume"), std::string::npos) << ran.err;
    const int64_t steps = nlohmann::json::parse(ran.out)["steps"];
    EXPECT_LT(steps, 120);
    EXPECT_EQ(lines(out + "/metrics.jsonl").size(), static_cast<size_t>(steps));
    const Ran rest = run(train(out, 120) + Arguments{"--resume", "-q"});
    EXPECT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(results(out), results("whole"));
    EXPECT_EQ(final_bits(out, "step-00000120"), final_bits("whole", "step-00000120"));
  }
}

TEST_F(CliTrain, ASecondInterruptEndsItAtOnce) {
  Running running(command(train("r", 10000)), settings());
  ASSERT_TRUE(running.read_until("step     2/10000"));
  // Unread, it stands still before a line of log and cannot end by itself: that takes two.
  ASSERT_TRUE(running.wait_until_full());
  do running.kill(SIGINT);
  while (!running.ends_within(10));
  EXPECT_EQ(running.finish().code, 130);
}

TEST_F(CliTrain, AfterAKillTheRunGoesOnInTheSameBits) {
  ASSERT_EQ(run(train("whole", 120) + Arguments{"-q"}).code, 0);
  const Arguments broken = train("broken", 120) + Arguments{"--checkpoint.every=2"};
  Running running(command(broken), settings());
  ASSERT_TRUE(running.read_until("step   7/120"));
  running.kill(SIGKILL);
  EXPECT_EQ(running.finish().code, 128 + SIGKILL);
  const Ran rest = run(broken + Arguments{"--resume", "-q"});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(results("broken"), results("whole"));
  EXPECT_EQ(final_bits("broken", "step-00000120"), final_bits("whole", "step-00000120"));
}

// The other one stands still in its steps; a saved checkpoint and its `latest` are there.
TEST_F(CliTrain, ADirectoryThatAnotherRunWritesIsRefusedByWhateverSettingItIsNamed) {
  Running running(command(train("a", 10000) + Arguments{"--checkpoint.every=1"}), settings());
  ASSERT_TRUE(running.read_until("step     3/10000"));
  ASSERT_TRUE(running.wait_until_full());
  const auto refused_for = [&](const std::string& used, const Arguments& more) {
    refused(train("b") + Arguments{"-q", "--fault.deadline=0.2"} + more, 1,
            {used + " is in use by process"});
  };
  refused_for("a/checkpoints", {"--checkpoint.dir=a/checkpoints"});
  refused_for("./a//checkpoints", {"--checkpoint.dir=./a//checkpoints", "--resume"});
  refused_for("a/checkpoints", {"--run.out=a/checkpoints"});
  refused_for("a", {"--checkpoint.dir=a"});
  refused_for("a", {"--run.out=a"});
  refused_for("a", {"--run.out=a", "--dry-run", "--run.trace=true"});
  EXPECT_FALSE(exists("a/trace.json"));
  EXPECT_FALSE(exists("a/checkpoints/previous-1"));
  EXPECT_FALSE(exists("a/previous-1"));
  running.kill(SIGKILL);
  running.finish();
  EXPECT_EQ(run(train("a", 10) + Arguments{"-q", "--resume"}).code, 0);
}

// What it sets aside is not another run's.
TEST_F(CliTrain, CheckpointsOfAnotherRunInsideAnOldOutputAreNotMoved) {
  ASSERT_EQ(run(train("a") + Arguments{"-q"}).code, 0);
  Running running(command(train("b", 10000) +
                          Arguments{"--checkpoint.every=1", "--checkpoint.dir=a/checkpoints"}),
                  settings());
  ASSERT_TRUE(running.read_until("step     3/10000"));
  ASSERT_TRUE(running.wait_until_full());
  refused(train("a") + Arguments{"-q", "--fault.deadline=0.2", "--checkpoint.dir=c"}, 1,
          {"a/checkpoints is in use by process"});
}

TEST_F(CliTrain, ItsOutputMayHoldItsCheckpointsUnderAnyName) {
  std::filesystem::create_directories(dir_ / "c");
  std::filesystem::create_symlink("c", dir_ / "link");
  for (const std::string& name :
       {std::string("c"), std::string("./c"), std::string("c/"), std::string("link"), dir_ / "c"}) {
    const Ran ran = run(train("c") + Arguments{"-q", "--checkpoint.dir=" + name});
    EXPECT_EQ(ran.code, 0) << name << "\n" << ran.err;
  }
  EXPECT_TRUE(exists("c/latest"));
  EXPECT_EQ(run(train("c") + Arguments{"-q", "--checkpoint.dir=./c", "--resume"}).code, 0);
}

TEST_F(CliTrain, WhatDoesNotFitInMemoryIsRefused) {
  const Ran quiet = run(train("r") + Arguments{"-q", "--run.memory_limit=1MiB"});
  EXPECT_EQ(quiet.code, 3);
  EXPECT_TRUE(quiet.err.starts_with("error: the run needs ")) << quiet.err;
  EXPECT_NE(quiet.err.find("may use 1.0 MiB"), std::string::npos) << quiet.err;
  EXPECT_NE(quiet.err.find("\nmemory "), std::string::npos) << quiet.err;
  EXPECT_EQ(quiet.err.find("\nto fit "), std::string::npos) << quiet.err;  // what it is, no advice
  const Ran ran = run(train("r") + Arguments{"--run.memory_limit=1MiB"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(ran.err.starts_with("error: the run needs ")) << ran.err;
  size_t at = 0;  // the table, the largest category, what was tried
  for (const char* part : {"\nmemory ", " activations ", "\nlargest ", "\nto fit     none found: "})
    ASSERT_NE(at = ran.err.find(part, at), std::string::npos) << part << ran.err;
  EXPECT_FALSE(exists("r"));
}

// All tokens choose the same two experts, which are on one rank of four or on two.
TEST_F(CliTrain, MoreTokensThanAnExpertsMemoryEndTheRunWithLayerRankAndCounts) {
  const Arguments skewed = {"train",
                            "-q",
                            "--model.preset=tiny-deepseek",
                            "--model.layers=2",
                            "--model.experts_per_token=1",
                            "--model.router_bias_std=100",
                            "--optim.router_bias_rate=0",
                            "--model.seq=16",
                            "--batch.global=4",
                            "--batch.micro=1",
                            "--parallel.dp=4",
                            "--parallel.ep=4",
                            "--run.threads=1",
                            "--run.out=skewed",
                            "--train.steps=3"};
  // Balanced: the 16 choices of a rank's tokens; the rank of the one expert gets those of all.
  const Ran ran = run(skewed + Arguments{"--memory.experts=1.2"});
  EXPECT_EQ(ran.code, 3) << ran.err;
  for (const char* part : {": layers.1.moe: 64 rows for experts ", " of rank ",
                           ", which has memory for 20 (balanced: 16); a larger memory.experts"})
    EXPECT_NE(ran.err.find(part), std::string::npos) << part << "\n" << ran.err;
  EXPECT_TRUE(ran.err.starts_with("error: rank ")) << ran.err;
  EXPECT_EQ(lines("skewed/metrics.jsonl").size(), 0u);
  const Ran fits = run(skewed + Arguments{"--memory.experts=4"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  const nlohmann::json step = nlohmann::json::parse(lines("skewed/metrics.jsonl").back());
  std::vector<int> tokens = step["expert_tokens"][0];
  std::ranges::sort(tokens);
  EXPECT_EQ(tokens, (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 64}));
}

TEST_F(CliTrain, AChangeThatIsAdvisedMakesTheRunFit) {
  const Ran fits = run(train("r") + Arguments{"--dry-run", "--json", "-q"});
  const int64_t need = nlohmann::json::parse(fits.out)["memory"][0]["reserved"];
  const Arguments tight =
      train("r") + Arguments{"--dry-run", "-q", "--run.memory_limit=" + std::to_string(need - 1)};
  const Ran refused = run(tight + Arguments{"--json"});
  EXPECT_EQ(refused.code, 3);
  const nlohmann::json advice = nlohmann::json::parse(refused.out);
  EXPECT_FALSE(advice["fits"]);
  const nlohmann::json fitting = nlohmann::json::parse(fits.out);
  for (const char* key :
       {"parameters", "active_parameters", "flops_per_token", "flops_per_step", "batch"})
    EXPECT_EQ(advice[key], fitting[key]) << key;
  EXPECT_EQ(advice["batch"]["tokens"], 32);
  EXPECT_EQ(advice["memory"][0]["reserved"], need);
  ASSERT_FALSE(advice["changes"].empty()) << refused.out;
  for (const nlohmann::json& change : advice["changes"]) {
    Arguments changed = tight;
    for (const std::string setting : change["overrides"]) changed.push_back("--" + setting);
    EXPECT_EQ(run(changed).code, 0) << join(changed, " ");
  }
  EXPECT_FALSE(exists("r"));
}

TEST_F(CliTrain, ADryRunDrawsItsMemory) {
  const Arguments dry = train("r") + Arguments{"--dry-run", "-q", "--svg", "pictures/memory.svg"};
  EXPECT_EQ(run(dry).code, 0);
  EXPECT_TRUE(read("pictures/memory.svg").starts_with("<svg "));
  std::filesystem::remove(dir_ / "pictures/memory.svg");
  EXPECT_EQ(run(dry + Arguments{"--run.memory_limit=1MiB"}).code, 3);
  EXPECT_NE(read("pictures/memory.svg").find(">limit 1.0 MiB"), std::string::npos);
  refused(train("r") + Arguments{"-q", "--svg", "m.svg"}, 2, {"--svg m.svg", "--dry-run"});
  EXPECT_FALSE(exists("r"));
}

TEST_F(CliTrain, AnOutputDirectoryThatCannotBeIsRefused) {
  write("file", "");
  const auto refused_dry_and_real = [&](const std::string& setting, const std::string& value) {
    for (const char* how : {"-q", "--dry-run"}) {
      const Ran ran =
          run(train("r") + Arguments{"--memory.offload=both", "--" + setting + "=" + value, how});
      EXPECT_EQ(ran.code, 4) << how << ran.err;
      EXPECT_EQ(ran.err.find("step 1/4"), std::string::npos) << ran.err;
      EXPECT_NE(ran.err.find("error: " + setting + " = " + value + ": "), std::string::npos)
          << how << ran.err;
      EXPECT_NE(ran.err.find("must be a directory to write in"), std::string::npos) << ran.err;
    }
    EXPECT_FALSE(exists("r"));
  };
  for (const char* setting : {"run.out", "checkpoint.dir", "memory.offload_dir"})
    for (const char* value : {"file/run", "/proc/run", "file"})
      refused_dry_and_real(setting, value);
  refused_dry_and_real("memory.offload_dir", "nope");  // of a machine, not made
  EXPECT_EQ(
      run(train("r") + Arguments{"--memory.offload=both", "--memory.offload_dir=.", "--dry-run"})
          .code,
      0);
  EXPECT_EQ(run(train("a/b/c") + Arguments{"--checkpoint.dir=d/e", "--dry-run"}).code, 0);
  EXPECT_FALSE(exists("r") || exists("a") || exists("d"));
}

// The earlier run stays where it is.
TEST_F(CliTrain, ARefusedPathMovesNothing) {
  ASSERT_EQ(run(train("r") + Arguments{"-q"}).code, 0);
  write("file", "");
  EXPECT_EQ(run(train("r") + Arguments{"-q", "--checkpoint.dir=file"}).code, 4);
  EXPECT_FALSE(exists("r/previous-1"));
}

TEST_F(CliTrain, DataThatIsNotThereOrBrokenIsRefused) {
  const Arguments from = train("r") + Arguments{"-q", "--data.kind=tokens"};
  refused(from, 2, {"data.path"});
  refused(from + Arguments{"--data.path=none.tok"}, 4, {"none.tok", "No such file"});
  const Arguments text = train("r") + Arguments{"-q", "--dry-run", "--data.kind=text"};
  refused(from + Arguments{"--data.path=none.tok", "--dry-run"}, 4, {"none.tok", "No such file"});
  refused(from + Arguments{"--data.path=none/*.tok", "--dry-run"}, 4, {"none/*.tok", "no file"});
  refused(text + Arguments{"--data.path=none.txt"}, 4, {"none.txt", "No such file"});
  write("text.txt", std::string(4000, 'a') + std::string(4000, 'z'));
  refused(text + Arguments{"--data.path=text.txt", "--data.tokenizer=none.json"}, 4, {"none.json"});
  EXPECT_EQ(run(text + Arguments{"--data.path=text.txt"}).code, 0);
  EXPECT_FALSE(exists("r"));
  ASSERT_EQ(run({"data", "tokenize", "text.txt", "--out", "good.tok"}).code, 0);
  ASSERT_EQ(run(train("good") + Arguments{"--data.kind=tokens", "--data.path=good.tok"}).code, 0);
  const std::string good = read("good.tok");
  write("cut.tok", good.substr(0, good.size() / 2));
  refused(from + Arguments{"--data.path=cut.tok"}, 4, {"cut.tok"});
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  write("flipped.tok", bad);
  refused(from + Arguments{"--data.path=flipped.tok"}, 4, {"flipped.tok", "checksum"});
  write("short.txt", "ab");
  ASSERT_EQ(run({"data", "tokenize", "short.txt", "--out", "short.tok"}).code, 0);
  refused(from + Arguments{"--data.path=short.tok"}, 4, {"short.tok", "model.seq"});
  refused(from + Arguments{"--data.path=good.tok", "--model.vocab=100"}, 4,
          {"good.tok", "id 122", "the vocabulary has 100"});
  refused(from + Arguments{"--data.path=text.txt"}, 4, {"text.txt", "not a token file"});
}

TEST_F(CliTrain, ADamagedCheckpointIsRefused) {
  ASSERT_EQ(run(train("r")).code, 0);
  const std::string directory = "r/checkpoints/step-00000004";
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = directory + "/" + entry.path().filename().string();
    std::string bytes = read(name);
    bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 4);
    write(name, bytes);
  }
  refused(train("r", 8) + Arguments{"--resume", "-q"}, 4, {directory});
  refused({"eval", "r/checkpoints"}, 4, {directory});
  refused({"checkpoint", "verify", "r/checkpoints"}, 4, {directory});
  const nlohmann::json report = json({"checkpoint", "verify", "r/checkpoints"}, 4);
  EXPECT_EQ(report["ok"], false);
  EXPECT_NE(report["problem"], "");
}

TEST_F(CliTrain, AFileThatCannotGrowEndsTheRunAndWhatWasWrittenCounts) {
  RunSettings limited = settings();
  limited.in_child = [] {
    const rlimit limit{8192, 8192};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  const Ran ran = run(train("r", 1000) + Arguments{"-q", "--run.tensorboard=false"}, limited);
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_TRUE(ran.err.starts_with("error: cannot write r/metrics.jsonl: ")) << ran.err;
  EXPECT_GT(lines("r/metrics.jsonl").size(), 10u);
}

TEST_F(CliTrain, AFullDiskEndsTheRunWithItsName) {
  std::filesystem::create_directories(dir_ / "small");
  if (::mount("tmpfs", (dir_ / "small").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "no file system can be mounted here";
  const Ran ran = run(train("small/r", 5000) + Arguments{"-q", "--run.tensorboard=false"});
  const size_t written = lines("small/r/metrics.jsonl").size();
  ::umount((dir_ / "small").c_str());
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_EQ(ran.err, "error: cannot write small/r/metrics.jsonl: No space left on device\n");
  EXPECT_GT(written, 100u);
}

}  // namespace
}  // namespace sextant
