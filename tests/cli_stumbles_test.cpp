// Where somebody who comes from other programs, or types something silly, must not stumble.
#include <sys/resource.h>

#include <csignal>

#include "base/error.h"
#include "support/cli.h"

namespace sextant {
namespace {

class CliStumbles : public CliTest {
 protected:
  // A finished run in `out`.
  void train(const std::string& out) { json(Arguments{"train", "-q"} + tiny(out, 2)); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path()))
      if (entry.is_regular_file()) names.push_back(entry.path().string());
    return names;
  }
};

TEST_F(CliStumbles, HelpIsThereHoweverItIsAskedFor) {
  const Ran help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const Arguments& arguments : {Arguments{}, Arguments{"help"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << join(arguments, " ");
    EXPECT_EQ(ran.out, help.out) << join(arguments, " ");
  }
  EXPECT_EQ(run({"help", "data", "tokenize"}).out, run({"data", "tokenize", "--help"}).out);
  refused({"help", "tran"}, 2, {"unknown command 'tran'", "did you mean 'train'?"});
}

TEST_F(CliStumbles, OptionsOfOtherProgramsLeadToOurs) {
  const std::tuple<Arguments, std::string, std::string> cases[] = {
      {{"generate", "x"}, "--max_new_tokens", "'--tokens'?"},
      {{"generate", "x"}, "--n-predict", "'--tokens'?"},
      {{"generate", "x"}, "--temp", "'--temperature'?"},
      {{"generate", "x"}, "--top_k", "'--top-k'?"},
      {{"generate"}, "--model", "; checkpoint is given without an option"},
      {{"generate"}, "-m", "; checkpoint is given without an option"},
      {{"eval", "x"}, "--batch-size", "'--batch'?"},
      {{"eval", "x"}, "--limit", "'--samples'?"},
      {{"train"}, "--init_from", "'--from'?"},
      {{"train"}, "--config", "; run.toml is given without an option"},
      {{"train"}, "--job.config_file", "unknown key job.config_file"},
      {{"train"}, "--nproc_per_node", "'--ranks'?"},
      {{"train"}, "--resume_from_checkpoint", "'--resume'?"},
      {{"train"}, "--model", "'--model.preset='?"},
      {{"train"}, "--bf16", "'--precision.compute='?"},
      {{"train"}, "--hsdp", "'--parallel.shard='?"},
      {{"train"}, "--min-lr", "'--optim.min_lr='?"},
      {{"train"}, "--checkpoint.interval", "'checkpoint.every'?"},
      {{"train"}, "--model.name", "'model.preset'?"},
      {{"simulate"}, "--ranks", "'--stages'?"},
      {{"plan"}, "--gpus", "'--cluster'?"},
      {{"export", "x"}, "--output", "'--out'?"},
      {{"data", "train-tokenizer", "x"}, "--vocab_size", "'--vocab'?"},
  };
  for (const auto& [command, option, answer] : cases)
    refused(command + Arguments{option, "1"}, 2,
            {option.substr(option.starts_with("--") ? 2 : 0), answer});
}

TEST_F(CliStumbles, AFileToWriteThatCannotBeIsRefusedBeforeTheWork) {
  std::filesystem::create_directory(dir_ / "d");
  write("a.txt", "a text");
  const std::vector<Arguments> writers = {
      {"data", "tokenize", "a.txt", "--out"},
      {"data", "train-tokenizer", "a.txt", "--vocab", "300", "--out"},
      {"plan", "--model", "llama-8b", "--cluster", "8xH100", "--batch", "8", "--out"},
      {"simulate", "--svg"},
      {"simulate", "--trace"},
      {"simulate", "--csv"},
      {"bench", "calibrate", "--out"},
      Arguments{"train", "--dry-run", "-q"} + tiny("r") + Arguments{"--svg"},
      Arguments{"config", "show"} + tiny("r") + Arguments{"--svg"}};
  for (const Arguments& command : writers) {
    refused(command + Arguments{"d"}, 2, {"d is a directory; name a file, such as d/"});
    refused(command + Arguments{"a.txt/x"}, 1, {"cannot write a.txt/x: a.txt is a file"});
  }
  EXPECT_EQ(files(), std::vector<std::string>{dir_ / "a.txt"});  // nothing is left
  json({"plan", "--model", "llama-8b", "--cluster", "8xH100", "--batch", "8", "--out",
        "made/for/it/run.toml"});
  EXPECT_TRUE(exists("made/for/it/run.toml"));
}

TEST_F(CliStumbles, TextWithoutAWordIsNoText) {
  write("empty.txt", "");
  refused({"data", "tokenize", "empty.txt", "--out", "x"}, 4, {"no text"});
  refused({"data", "train-tokenizer", "empty.txt", "--vocab", "300", "--out", "x"}, 4, {"no text"});
  EXPECT_FALSE(exists("x"));
}

TEST_F(CliStumbles, DataAsPeopleHaveItIsReadOrNamed) {
  const auto tokenize = [](const std::string& input) {
    return Arguments{"data", "tokenize", input, "--out", "x"};
  };
  write("a.gz", "\x1f\x8b\x08 some");
  refused(tokenize("a.gz"), 4, {"a.gz is gzip; text, jsonl and both as .zst are read"});
  write("a.parquet", "PAR1 rows PAR1");
  refused(tokenize("a.parquet"), 4, {"a.parquet is Parquet"});
  // Records on lines, whatever the file is called; a tokenizer beside the text is none of it.
  const std::string records = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  write("d/a.json", records);
  write("d/tokenizer.json", "{}");
  EXPECT_EQ(json(tokenize("d"))["documents"], 2);
  EXPECT_EQ(json(tokenize("d"))["tokens"], 3 + 1 + 3 + 1);
  write("list.json", "[\n  {\"text\": \"one\"}\n]\n");
  refused(tokenize("list.json"), 4, {"list.json:1"});
}

TEST_F(CliStumbles, CheckpointsAreFoundByWhatOneNames) {
  train("out");
  EXPECT_EQ(json({"eval", "out/checkpoints/latest"}), json({"eval", "out"}));
  refused({"eval", "out/checkpoints/step-2"}, 4, {"no such checkpoint", "step-00000002"});
  refused({"checkpoint", "list", "nowhere"}, 4, {"nowhere: no such directory"});
  EXPECT_EQ(json({"checkpoint", "list", "."})["checkpoints"].size(), 0u);
}

TEST_F(CliStumbles, ACheckpointOfOtherSettingsIsNotCalledDamaged) {
  train("out");
  json(Arguments{"train", "-q", "--resume"} + tiny("out", 4));
  const auto resumed = [&](const std::string& setting) {
    return Arguments{"train", "-q", "--resume"} + tiny("out", 6) + Arguments{setting};
  };
  const std::pair<std::string, std::string> settings[] = {
      {"--train.seed=5", "was made with train.seed = 0, not 5"},
      {"--optim.name=sgd", "was made with optim.name = adamw, not sgd"},
      {"--model.layers=2", "was trained with model.layers = 1, not 2"}};
  for (const auto& [setting, problem] : settings) {
    refused(resumed(setting), 4, {problem});
    EXPECT_EQ(run(resumed(setting)).err.find("whole"), std::string::npos) << setting;
  }
}

TEST_F(CliStumbles, AnImportDoesNotHideTheCheckpointsOfARun) {
  train("out");
  json({"export", "out", "--out", "hf"});
  refused({"import", "hf", "--out", "out"}, 2, {"out is the directory of a run"});
  EXPECT_EQ(json({"checkpoint", "list", "out"})["checkpoints"][0]["step"], 2);
  refused({"import", "meta-llama/Llama-3.1-8B", "--out", "x"}, 4,
          {"meta-llama/Llama-3.1-8B: no such directory", "nothing is downloaded"});
  refused({"export", "hf", "--out", "again"}, 2, {"hf is a Hugging Face directory"});
  write("file", "");
  refused({"export", "out", "--out", "file"}, 2, {"--out file: a file; a directory is needed"});
}

TEST_F(CliStumbles, AComparisonThatWasKilledIsNotInTheWay) {
  train("out");
  write("hf.verify.tmp/exported/config.json", "{}");
  EXPECT_EQ(json({"export", "out", "--out", "hf", "--verify"})["max_logit_diff"], 0);
  EXPECT_FALSE(exists("hf.verify.tmp"));
}

// At one moment after another from the start on: before the first batch, too.
TEST_F(CliStumbles, AnInterruptOfAnEvaluationIsNoBadData) {
  train("out");
  for (int moment = 0; moment < 30; ++moment) {
    Running running(command({"eval", "out", "--batch", "1", "-q"}), settings());
    running.ends_within(moment);  // milliseconds
    running.kill(SIGINT);
    const Ran ran = running.finish();
    EXPECT_TRUE(ran.code == 0 || ran.code == 130 || ran.code == 128 + SIGINT)
        << moment << ": " << ran.code << " " << ran.err;
  }
}

TEST_F(CliStumbles, AFullDiskIsAFailureAlsoForTheLock) {
  RunSettings full = settings();
  full.in_child = [] {
    const rlimit none{0, 0};  // no file may grow
    ::setrlimit(RLIMIT_FSIZE, &none);
    ::signal(SIGXFSZ, SIG_IGN);
  };
  const Ran ran = run(Arguments{"train", "-q"} + tiny("out"), full);
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_EQ(ran.err, "error: cannot write out/run.lock: File too large\n");
}

TEST_F(CliStumbles, ATildeThatNoShellExpandedIsNoDirectory) {
  for (const char* setting : {"run.out", "checkpoint.dir"})
    refused(Arguments{"train", "-q"} + tiny("r") + Arguments{concat("--", setting, "=~/runs/a")}, 2,
            {concat(setting, " = ~/runs/a"), "$HOME/runs/a"});
  refused({"simulate", "--svg", "~/a.svg"}, 2, {"~/a.svg", "$HOME/a.svg"});
  EXPECT_EQ(files().size(), 0u);
}

TEST_F(CliStumbles, PlansSayWhatWouldBeRight) {
  const Arguments plan = {"plan", "--model", "llama-8b", "--cluster", "8xH100", "--batch", "8"};
  refused(plan + Arguments{"--top", "0"}, 2, {"--top 0", "at least 1"});
  refused(plan + Arguments{"--fix", "tp"}, 2, {"'tp' is no axis and its value, such as tp=8"});
  EXPECT_EQ(run(plan + Arguments{"--fix", "tp"}).err.find("did you mean"), std::string::npos);
  refused(plan + Arguments{"--fix", "fsdp=8"}, 2, {"'fsdp' is none of", "shard", "zero", "pp"});
  refused({"config", "models", "nosuch"}, 2, {"nosuch: no preset is called so"});
  refused({"config", "models", "gpt2"}, 2, {"did you mean 'gpt2-124m'?"});
  refused({"config", "keys", "frobnicate"}, 2, {"no setting is about 'frobnicate'"});
  EXPECT_EQ(json({"config", "keys", "learning_rate"})["keys"][0]["name"], "optim.lr");
  refused(Arguments{"simulate", "--hardware", "H200"} + tiny("r"), 4,
          {"--hardware H200: no such file", "bench calibrate"});
  refused(Arguments{"simulate", "--compare", "nowhere"} + tiny("r"), 4,
          {"nowhere: no such file or directory"});
}

}  // namespace
}  // namespace sextant
