// Commands on trained and foreign models: import, export, eval, generate, checkpoint.
#include "support/cli.h"

namespace sextant {
namespace {

class CliModel : public CliTest {
 protected:
  static std::string fixture(const std::string& name) {
    return source_dir() + "/tests/oracle/fixtures/" + name;
  }
  // A trained tiny model of plain bytes, longest sequence 16.
  std::string trained(int steps = 4) {
    EXPECT_EQ(run(Arguments{"train", "-q"} + tiny("run", steps)).code, 0);
    return "run/checkpoints";
  }
  std::string text(const Arguments& options) {
    return json(Arguments{"generate", "run/checkpoints"} + options)["tokens"].dump();
  }
};

TEST_F(CliModel, ImportAndExportKeepEveryLogit) {
  for (const char* family : {"gpt2", "llama", "qwen3"}) {
    const std::string in = "in/" + std::string(family), out = "out/" + std::string(family);
    const nlohmann::json imported = json({"import", fixture(family), "--out", in, "--verify"});
    EXPECT_GT(imported["tensors"], 0) << family;
    EXPECT_GT(imported["bytes"], 0) << family;
    EXPECT_EQ(imported["max_logit_diff"], 0.0) << family;
    const nlohmann::json exported = json({"export", in, "--out", out, "--verify"});
    EXPECT_EQ(exported["max_logit_diff"], 0.0) << family;
    EXPECT_TRUE(exists(out + "/config.json") && exists(out + "/model.safetensors")) << family;
    EXPECT_FALSE(exists(in + ".verify.tmp") || exists(out + ".verify.tmp")) << family;
    const nlohmann::json rounded =
        json({"export", in, "--out", out + "-bf16", "--dtype", "bf16", "--verify"});
    EXPECT_GT(rounded["max_logit_diff"], 0.0) << family;
    EXPECT_LT(rounded["max_logit_diff"], 0.1) << family;
  }
  EXPECT_TRUE(json({"export", "in/gpt2", "--out", "plain"})["max_logit_diff"].is_null());
}

TEST_F(CliModel, ImportKeepsTheTokenizerBesideTheWeights) {
  std::filesystem::copy(fixture("gpt2"), dir_ / "hf");
  write("hf/tokenizer.json", "{}");
  ASSERT_EQ(run({"import", "hf", "--out", "in"}).code, 0);
  refused({"generate", "in", "--prompt", "a"}, 4, {"in/step-00000000/tokenizer.json"});
}

TEST_F(CliModel, TrainingGoesOnFromAnImportedModel) {
  ASSERT_EQ(run({"import", fixture("llama"), "--out", "in"}).code, 0);
  const Ran ran = run({"train", "-q", "--model.hf=" + fixture("llama"), "--data.kind=synthetic",
                       "--train.steps=2", "--run.out=r", "--from", "in", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  refused(Arguments{"train", "-q", "--from", "in"} + tiny("r2"), 4, {"in/step-00000000"});
}

TEST_F(CliModel, DirectoriesThatAreNoModelAreRefused) {
  refused({"import", "none", "--out", "x"}, 4, {"none", "config.json"});
  refused({"import", ".", "--out", "x"}, 4, {"config.json"});
  refused({"export", "none", "--out", "x"}, 4, {"none"});
  refused({"export", trained(), "--out", "x", "--dtype", "f64"}, 2, {"f32, bf16, f16"});
  write("file", "");
  refused({"import", fixture("gpt2"), "--out", "file/x"}, 1, {"file/x"});
  write("config-only/config.json", "{\"model_type\": \"gpt2\"");
  refused({"import", "config-only", "--out", "x"}, 4, {"config-only"});
  write("other/config.json", "{\"model_type\": \"bert\"}");
  refused({"import", "other", "--out", "x"}, 4, {"bert"});
}

// safetensors files that lie about themselves.
class CliSafetensors : public CliModel {
 protected:
  void SetUp() override {
    std::filesystem::copy(fixture("gpt2"), dir_ / "hf");
    bytes_ = read("hf/model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    header_ = nlohmann::ordered_json::parse(bytes_.substr(8, length));
    data_ = bytes_.substr(8 + length);
  }
  void refuses(const std::string& file, const std::string& part) {
    write("hf/model.safetensors", file);
    refused({"import", "hf", "--out", "x"}, 4, {"model.safetensors", part});
    EXPECT_FALSE(exists("x/latest"));
  }
  static std::string with_length(uint64_t length, const std::string& rest) {
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, sizeof length);
    return file + rest;
  }
  std::string with_header(const std::string& header) const {
    return with_length(header.size(), header + data_);
  }

  std::string bytes_, data_;
  nlohmann::ordered_json header_;
};

TEST_F(CliSafetensors, LengthsThatCannotBeAreRefused) {
  refuses("", "");
  refuses("1234", "");
  refuses(with_length(0, bytes_.substr(8)), "header");
  refuses(with_length(uint64_t{1} << 63, bytes_.substr(8)), "header");
  refuses(with_length(bytes_.size(), bytes_.substr(8)), "header");
  refuses(bytes_.substr(0, bytes_.size() - 1), "");
  refuses(bytes_ + "x", "");
}

TEST_F(CliSafetensors, HeadersThatLieAreRefused) {
  const auto first = std::next(header_.begin(), header_.begin().key() == "__metadata__" ? 1 : 0);
  const std::string a = first.key(), b = std::next(first).key();
  nlohmann::ordered_json changed = header_;
  changed[b]["data_offsets"] = header_[a]["data_offsets"];
  refuses(with_header(changed.dump()), "");  // two tensors in one place
  changed = header_;
  changed.erase(a);
  refuses(with_header(changed.dump()), "");  // bytes that belong to nobody
  changed = header_;
  changed[a]["shape"] = {int64_t{1} << 62, 8};
  refuses(with_header(changed.dump()), a);
  changed[a]["shape"] = {-1, 4};
  refuses(with_header(changed.dump()), a);
  changed = header_;
  changed[a]["dtype"] = "F7";
  refuses(with_header(changed.dump()), "F7");
  const std::string text = header_.dump();
  refuses(with_header("{\"" + a + "\":" + header_[a].dump() + "," + text.substr(1)), a);  // twice
  refuses(with_header("[1, 2]"), "");
  refuses(with_header("{\"a\":"), "");
}

TEST_F(CliModel, EvalReportsLossAndPerplexity) {
  trained(20);
  write("a.txt", "The quick brown fox jumps over the lazy dog, again and again.");
  ASSERT_EQ(run({"data", "tokenize", "a.txt", "--out", "a.tok"}).code, 0);
  const nlohmann::json document = json({"eval", "run/checkpoints", "a.tok"});
  EXPECT_EQ(document["tokens"], 48);  // three whole sequences of 16
  EXPECT_NEAR(document["perplexity"].get<double>(), std::exp(document["loss"].get<double>()), 1e-9);
  EXPECT_EQ(json({"eval", "run/checkpoints", "a.tok", "--batch", "1"})["tokens"], 48);
  const nlohmann::json held_out = json({"eval", "run/checkpoints", "--samples", "8"});
  EXPECT_LT(held_out["loss"], std::log(256.0));
  EXPECT_EQ(run({"eval", "run/checkpoints", "--samples", "8"}).err, "");
  refused({"eval", "run/checkpoints", "none.tok"}, 4, {"none.tok"});
  refused({"eval", "none"}, 4, {"none"});
  refused({"eval", "run/checkpoints", "--run.memory_limit=1MiB"}, 3, {"1.0 MiB"});
  refused({"eval", "run/checkpoints", "--run.memry_limit=1MiB"}, 2, {"'run.memory_limit'"});
}

TEST_F(CliModel, EvalOfSyntheticDataNeedsAnEnd) {
  ASSERT_EQ(run({"import", fixture("gpt2"), "--out", "in"}).code, 0);
  refused({"eval", "in"}, 2, {"token file", "--samples"});
  EXPECT_GT(json({"eval", "in", "--samples", "2"})["tokens"], 0);
}

TEST_F(CliModel, GenerationIsAFunctionOfItsSeed) {
  trained(20);
  const Arguments some = {"--prompt", "The ", "--tokens", "12"};
  const std::string once = text(some + Arguments{"--seed", "5"});
  EXPECT_EQ(text(some + Arguments{"--seed", "5"}), once);
  EXPECT_NE(text(some + Arguments{"--seed", "6"}), once);
  const std::string greedy = text(some + Arguments{"--temperature", "0"});
  EXPECT_EQ(text(some + Arguments{"--temperature", "0", "--seed", "9"}), greedy);
  EXPECT_EQ(text(some + Arguments{"--top-k", "1"}), greedy);
  EXPECT_EQ(text(some + Arguments{"--top-p", "0.000001"}), greedy);
}

TEST_F(CliModel, GenerationGoesOnBeyondTheLongestSequence) {
  trained(200);
  const nlohmann::json document =
      json({"generate", "run/checkpoints", "--tokens", "100", "--temperature", "0", "--prompt",
            "A prompt that is longer than the sixteen tokens it sees"});
  EXPECT_EQ(document["tokens"].size(), 100u);
  EXPECT_EQ(document["text"].get<std::string>().size(), 100u);
  EXPECT_TRUE(document.contains("prompt"));
}

TEST_F(CliModel, GenerateWritesPromptAndTextAndNothingElse) {
  trained(100);
  const Arguments some = {"generate", "run/checkpoints", "--prompt", "The ", "--tokens",
                          "9",        "--temperature",   "0"};
  const Ran ran = run(some);
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.err.find("KV cache 2.0 KiB for 16 tokens\n9 tokens, "), std::string::npos)
      << ran.err;
  EXPECT_EQ(run(some + Arguments{"-q"}).err, "");
  EXPECT_EQ(ran.out, "The " + json(some)["text"].get<std::string>() + "\n");
  refused({"generate", "run/checkpoints", "--tokenizer", "none.json"}, 4, {"none.json"});
}

TEST_F(CliModel, CheckpointsAreListedInspectedAndVerified) {
  ASSERT_EQ(run(Arguments{"train", "-q", "--checkpoint.every=2"} + tiny("run", 6)).code, 0);
  const nlohmann::json rows = json({"checkpoint", "list", "run/checkpoints"})["checkpoints"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["step"], 4);
  EXPECT_EQ(rows[1]["step"], 6);
  EXPECT_EQ(rows[1]["latest"], true);
  for (const nlohmann::json& row : rows)
    for (const char* key : {"step", "layout", "tensors", "bytes", "ok"})
      EXPECT_TRUE(row.contains(key)) << key;
  const nlohmann::json inside = json({"checkpoint", "inspect", "run/checkpoints"});
  EXPECT_EQ(inside["step"], 6);
  EXPECT_EQ(inside["ok"], true);
  EXPECT_EQ(inside["tensors"][0]["shape"], nlohmann::json({256, 16}));
  const nlohmann::json whole = json({"checkpoint", "verify", "run/checkpoints/step-00000004"});
  EXPECT_EQ(whole["step"], 4);
  EXPECT_EQ(whole["ok"], true);
  EXPECT_EQ(whole["tensors"], rows[0]["tensors"]);
  // run.out stands for its checkpoints.
  EXPECT_EQ(json({"checkpoint", "list", "run"})["checkpoints"], rows);
  EXPECT_EQ(json({"checkpoint", "inspect", "run"})["step"], 6);
  write("empty/a", "");
  EXPECT_EQ(run({"checkpoint", "list", "empty"}).out, "no checkpoints in empty\n");
  refused({"checkpoint", "list", "none"}, 4, {"none"});
  refused({"checkpoint", "inspect", "empty"}, 4, {"empty"});
}

class SlowCli : public CliTest {};

TEST_F(SlowCli, TheDemoLearnsResumesAndWrites) {
  RunSettings patient = settings();
  patient.deadline = std::chrono::seconds(300);
  const Ran ran = run({"demo", "--json", "-q"}, patient);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const nlohmann::json document = nlohmann::json::parse(ran.out);
  EXPECT_LT(document["loss_last"], 0.6 * document["loss_first"].get<double>());
  EXPECT_EQ(document["verify"], "rounding");  // replicas of shards sum twice
  EXPECT_EQ(document["resume"], "rounding");  // half as many ranks
  EXPECT_GT(document["text"].get<std::string>().size(), 20u);
  EXPECT_TRUE(exists("out/demo/metrics.jsonl"));
}

}  // namespace
}  // namespace sextant
