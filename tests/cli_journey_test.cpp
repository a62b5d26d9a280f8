// From text to a model that others load, as a user goes.
#include "support/cli.h"

namespace sextant {
namespace {

class CliJourney : public CliTest {
 protected:
  // Sentences over a few words, so that pairs repeat.
  std::string text(const std::string& name, int seed, int lines) {
    const char* words[] = {"the", "lamp", "reads", "a", "token", "ship", "under", "every", "star"};
    std::string out;
    unsigned state = static_cast<unsigned>(seed);
    for (int line = 0; line < lines; ++line) {
      for (int i = 0; i < 9; ++i) {
        state = state * 1664525u + 1013904223u;
        out += std::string(i == 0 ? "" : " ") + words[(state >> 16) % 9];
      }
      out += "\n";
    }
    return write(name, out);
  }
  std::vector<std::string> metrics(const std::string& out) {
    std::vector<std::string> losses;
    for (const std::string& line : split(read(out + "/metrics.jsonl"), '\n')) {
      const nlohmann::json step = nlohmann::json::parse(line, nullptr, false);
      if (step.is_object()) losses.push_back(step["loss"].dump());
    }
    return losses;
  }
};

TEST_F(CliJourney, TextBecomesATokenizerTokensAModelAndAnExport) {
  for (int i = 0; i < 4; ++i) text("text/" + std::to_string(i) + ".txt", i, 150);
  json({"data", "train-tokenizer", "text", "--vocab", "300", "--out", "made/tokenizer.json"});
  const auto tokenize = [&](const std::string& from, const std::string& to) {
    json({"data", "tokenize", from, "--split", "lines", "--tokenizer", "made/tokenizer.json",
          "--out", to});
  };
  for (int i = 0; i < 3; ++i)
    tokenize("text/" + std::to_string(i) + ".txt", "web/web-" + std::to_string(i) + ".tokens");
  tokenize("text/3.txt", "code/c.tokens");
  std::filesystem::remove_all(dir_ / "made");  // the token files know it
  write("run.toml", R"(
[model]
family = "llama"
layers = 2
hidden = 32
heads = 2
seq = 16
[data]
kind = "tokens"
blend = "0.7 web/*.tokens, 0.3 code"
[batch]
global = 4
[parallel]
dp = 2
[train]
steps = 8
eval_every = 4
[checkpoint]
every = 2
)");
  // One run that nobody disturbs, and one that is killed and goes on.
  json({"train", "run.toml", "--run.out=whole", "--resume=auto"});
  const nlohmann::json dry = json({"train", "run.toml", "--dry-run"});
  EXPECT_GT(dry["parameters"], 0);
  EXPECT_EQ(dry["batch"]["tokens"], 64);
  {
    Running running(
        command({"train", "run.toml", "--run.out=out", "--fault.inject=die:rank=1,step=5"}),
        settings());
    EXPECT_NE(running.finish().code, 0);
  }
  json({"train", "run.toml", "--run.out=out", "--resume=auto"});
  EXPECT_EQ(metrics("out"), metrics("whole"));  // to the last bit
  EXPECT_EQ(metrics("out").size(), 8U);

  const nlohmann::json loss = json({"eval", "out"});
  ASSERT_EQ(loss["sources"].size(), 2U);
  EXPECT_EQ(loss["sources"][1]["name"], "code");
  RunSettings elsewhere = settings();
  elsewhere.directory = dir_ / "text";
  const Arguments generate = {"generate", "--prompt",      "the lamp", "--tokens",
                              "6",        "--temperature", "0",        "--json"};
  const Ran made = run(generate + Arguments{dir_ / "out"}, elsewhere);
  ASSERT_EQ(made.code, 0) << made.err;

  json({"export", "out", "--out", "hf", "--verify"});
  EXPECT_TRUE(nlohmann::json::parse(read("hf/tokenizer_config.json")).contains("eos_token"));
  const Ran theirs = run(generate + Arguments{dir_ / "hf"}, elsewhere);
  ASSERT_EQ(theirs.code, 0) << theirs.err;
  EXPECT_EQ(nlohmann::json::parse(theirs.out)["tokens"], nlohmann::json::parse(made.out)["tokens"]);
  EXPECT_EQ(json({"eval", "hf", "code/c.tokens"})["loss"],
            json({"eval", "out", "code/c.tokens"})["loss"]);
}

TEST_F(CliJourney, WhatDoesNotBelongTogetherIsRefused) {
  text("a.txt", 1, 60);
  json({"data", "train-tokenizer", "a.txt", "--vocab", "280", "--out", "one/tokenizer.json"});
  json({"data", "train-tokenizer", "a.txt", "--vocab", "270", "--out", "two/tokenizer.json"});
  for (const char* name : {"one", "two"})
    json({"data", "tokenize", "a.txt", "--tokenizer", name, "--out",
          std::string("tok/") + name + ".tokens"});
  const Arguments model = {
      "--model.layers=1", "--model.hidden=16", "--model.heads=2",    "--model.seq=8",
      "--batch.global=2", "--train.steps=2",   "--data.kind=tokens", "-q"};
  refused(Arguments{"train", "--data.path=tok"} + model, 4, {"with another one"});
  refused(Arguments{"train", "--data.path=tok/none-*"} + model, 4, {"no file matches"});
  json(Arguments{"train", "--data.path=tok/one.tokens", "--run.out=out"} + model);
  refused({"eval", "out", "tok/two.tokens"}, 4, {"another tokenizer"});
  refused({"eval", "out", "--parallel.tp=2"}, 2, {"--parallel.tp=2", "one rank"});
  refused({"generate", "out", "--parallel.pp=2"}, 2, {"--parallel.pp=2", "one rank"});
  for (const char* unused : {"optim.lr=1", "run.trace=true", "precision.moments=bf16",
                             "model.dropout=0.5", "checkpoint.every=1", "memory.recompute=full"})
    for (const char* command : {"eval", "generate"})
      refused({command, "out", std::string("--") + unused}, 2,
              {unused, std::string(command) + " does not use "});
  refused({"generate", "out", "--data.path=tok/one.tokens"}, 2, {"does not use data.path"});
  refused({"eval", "out", "tok/one.tokens", "--data.path=x"}, 2, {"does not use data.path"});
  json({"eval", "out", "--data.path=tok/one.tokens", "--run.threads=1"});
  const Arguments tune = {
      "train", "--from",         "out", "--batch.global=2", "--train.steps=1", "--data.kind=tokens",
      "-q",    "--run.out=tuned"};
  refused(tune + Arguments{"--data.path=tok/two.tokens"}, 4, {"another tokenizer"});
  refused(tune + Arguments{"--data.path=tok/one.tokens", "--model.hidden=32"}, 4,
          {"model.hidden = 16, not 32"});
  json(tune + Arguments{"--data.path=tok/one.tokens"});
  const Ran limited = run(
      tune + Arguments{"--data.path=tok/one.tokens", "--train.steps=9", "--train.max_hours=1e-9"});
  EXPECT_EQ(limited.code, 6);
  EXPECT_EQ(json({"checkpoint", "list", "tuned"})["checkpoints"].size(), 1U);
  EXPECT_TRUE(json({"--version"}).contains("features"));
}

// Nothing but the checkpoint says the model and the tokenizer of this run.
TEST_F(CliJourney, ARunFromACheckpointGoesOnByItself) {
  text("a.txt", 1, 60);
  json({"data", "train-tokenizer", "a.txt", "--vocab", "280", "--out", "made/tokenizer.json"});
  json({"data", "tokenize", "a.txt", "--tokenizer", "made", "--out", "a.tokens"});
  const Arguments model = {"--model.family=llama", "--model.layers=1", "--model.hidden=16",
                           "--model.heads=2", "--model.seq=8"};
  const Arguments common = {"--batch.global=2", "--train.steps=4", "--data.path=a.txt",
                            "--data.kind=text", "-q"};
  json(Arguments{"train", "--data.kind=tokens", "--data.path=a.tokens", "--batch.global=2",
                 "--train.steps=2", "--run.out=base", "-q"} +
       model);
  const Arguments tune = Arguments{"train", "--from", "base"} + common;
  json(tune + Arguments{"--run.out=whole"});
  EXPECT_EQ(run(tune + Arguments{"--run.out=cut", "--train.max_hours=1e-9"}).code, 6);
  EXPECT_EQ(json(tune + Arguments{"--run.out=auto", "--resume=auto"})["steps"], 4);
  std::filesystem::remove_all(dir_ / "base");
  std::filesystem::remove_all(dir_ / "made");
  EXPECT_EQ(json(Arguments{"train", "--resume", "--run.out=cut"} + common)["steps"], 4);
  EXPECT_EQ(metrics("cut"), metrics("whole"));
  EXPECT_EQ(json(tune + Arguments{"--run.out=auto", "--resume=auto"})["steps"], 4);  // is there
  EXPECT_EQ(json({"eval", "cut"}), json({"eval", "whole"}));
  refused(tune + Arguments{"--run.out=new", "--resume=auto"}, 4, {"base: no such checkpoint"});
}

TEST_F(CliJourney, ARunFromAHuggingFaceDirectoryIsOneFromItsImport) {
  text("a.txt", 1, 60);
  json({"data", "train-tokenizer", "a.txt", "--vocab", "280", "--out", "made/tokenizer.json"});
  json({"data", "tokenize", "a.txt", "--tokenizer", "made", "--out", "a.tokens"});
  for (const char* family : {"gpt2", "llama"}) {
    const std::string name = family, hf = name + "-hf";
    json({"train", "--data.kind=tokens", "--data.path=a.tokens", "--model.family=" + name,
          "--model.layers=2", "--model.hidden=16", "--model.heads=2", "--model.seq=8",
          "--batch.global=4", "--train.steps=2", "--run.out=" + name, "-q"});
    json({"export", name, "--out", hf});
    json({"import", hf, "--out", name + "-in"});
    const Arguments tune = {
        "train", "--data.kind=text", "--data.path=a.txt", "--batch.global=4", "--train.steps=3",
        "-q"};
    json(tune + Arguments{"--from", name + "-in", "--run.out=" + name + "-1"});
    json(tune + Arguments{"--from", hf, "--run.out=" + name + "-2"});
    EXPECT_EQ(metrics(name + "-1").size(), 3U);
    EXPECT_EQ(metrics(name + "-1"), metrics(name + "-2"));  // to the last bit
    // Every rank takes its part of each tensor.
    const Arguments layout = {"--parallel.tp=2", "--parallel.shard=2", "--parallel.zero=3"};
    json(tune + layout + Arguments{"--from", name + "-in", "--run.out=" + name + "-3"});
    json(tune + layout + Arguments{"--from", hf, "--run.out=" + name + "-4", "--resume=auto"});
    EXPECT_EQ(metrics(name + "-3"), metrics(name + "-4"));
    EXPECT_TRUE(exists(name + "-4/checkpoints/step-00000003/tokenizer.json"));
    refused(tune + Arguments{"--from", hf, "--model.hidden=32"}, 4, {"model.hidden = 16, not 32"});
    json({"data", "tokenize", "a.txt", "--out", "bytes.tokens"});
    refused({"train", "--from", hf, "--data.kind=tokens", "--data.path=bytes.tokens",
             "--batch.global=2", "-q"},
            4, {"the data is of plain bytes"});
    std::filesystem::remove(dir_ / (hf + "/model.safetensors"));
    for (const char* how : {"--train.steps=3", "--dry-run"})
      refused(tune + Arguments{"--from", hf, "--run.out=none", how}, 4, {hf, "no weights"});
    EXPECT_FALSE(exists("none"));
  }
}

TEST_F(CliJourney, WhatWouldBeLostOrMisreadIsRefused) {
  text("a.txt", 1, 60);
  json({"data", "train-tokenizer", "a.txt", "--vocab", "280", "--out", "made/tokenizer.json"});
  json({"data", "tokenize", "a.txt", "--tokenizer", "made", "--out", "a.tokens"});
  json({"data", "tokenize", "a.txt", "--out", "bytes.tokens"});
  refused({"data", "tokenize", "a.txt", "--out", "./a.txt"}, 2, {"is one of the inputs"});
  refused({"data", "tokenize", "a.tokens", "--out", "x"}, 4, {"a.tokens", "not text"});
  const Arguments model = {"--model.family=llama", "--model.layers=1",   "--model.hidden=16",
                           "--model.heads=2",      "--model.seq=8",      "--batch.global=2",
                           "--train.steps=2",      "--data.kind=tokens", "-q"};
  refused(Arguments{"train", "--data.blend=1 none.tokens"} + model, 4,
          {"model.vocab is to follow from the data", "none.tokens"});
  json(Arguments{"train", "--data.path=a.tokens", "--run.out=out"} + model);
  // Ids of bytes are ids of the model, but other words.
  refused({"eval", "out", "bytes.tokens"}, 4, {"the data is of plain bytes"});
  refused({"train", "--from", "out", "--data.kind=tokens", "--data.path=bytes.tokens",
           "--batch.global=2", "-q"},
          4, {"the data is of plain bytes"});
  json({"train", "--from", "out", "--batch.global=2", "--train.steps=1", "--run.out=corpus", "-q"});
  EXPECT_TRUE(exists("corpus/checkpoints/step-00000001/tokenizer.json"));
  // The same configuration trains and tunes: the vocabulary of the data replaces that of the
  // preset.
  const Arguments preset = {"train",
                            "--model.preset=tiny-llama",
                            "--data.kind=tokens",
                            "--train.steps=1",
                            "--data.path=a.tokens",
                            "--batch.global=2",
                            "-q"};
  json(preset + Arguments{"--run.out=first"});
  json(preset + Arguments{"--run.out=second", "--from", "first"});
  json({"export", "out", "--out", "hf"});
  refused({"eval", "hf"}, 2, {"hf is a Hugging Face directory"});
}

TEST_F(CliJourney, StopStringsEndAText) {
  text("a.txt", 1, 60);
  json({"train", "--data.kind=text", "--data.path=a.txt", "--model.preset=tiny", "--train.steps=3",
        "--batch.global=2"});
  const Arguments generate = {"generate", "out", "--prompt",      "the",
                              "--tokens", "12",  "--temperature", "0"};
  const nlohmann::json whole = json(generate);
  const std::string text = whole["text"];
  ASSERT_EQ(text.size(), 12U);
  const std::string stop = text.substr(4, 2);
  const nlohmann::json cut = json(generate + Arguments{"--stop", "no such", "--stop", stop});
  EXPECT_EQ(cut["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(run(generate + Arguments{"--stop", stop}).out,
            "the" + text.substr(0, text.find(stop)) + "\n");
  EXPECT_GT(whole["tokens_per_s"], 0);
}

}  // namespace
}  // namespace sextant
