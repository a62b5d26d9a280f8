// The tokens that a tokenizer puts around a text, and those that end one.
#include "support/cli.h"

namespace sextant {
namespace {

class CliSpecialTokens : public CliTest {
 protected:
  static constexpr int kBegin = 27, kEnd = 28;

  // A model of 101 ids whose tokenizer has letters, a space and <s>, which begins every text.
  void SetUp() override {
    std::filesystem::copy(source_dir() + "/tests/oracle/fixtures/llama", dir_ / "hf");
    nlohmann::ordered_json vocab;
    for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
    vocab["\u0120"] = 26;
    nlohmann::ordered_json file = nlohmann::ordered_json::parse(R"({
      "added_tokens": [{"id": 27, "content": "<s>", "special": true},
                       {"id": 28, "content": "</s>", "special": true},
                       {"id": 29, "content": "<|eot|>", "special": true}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "post_processor": {"type": "TemplateProcessing",
                         "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                    {"Sequence": {"id": "A", "type_id": 0}}],
                         "special_tokens": {"<s>": {"id": "<s>", "ids": [27], "tokens": ["<s>"]}}},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "merges": []}})");
    file["model"]["vocab"] = vocab;
    write("hf/tokenizer.json", file.dump());
    ends("config.json", nullptr);
  }
  // Sets eos_token_id in a file of the directory.
  void ends(const std::string& name, const nlohmann::ordered_json& eos) {
    nlohmann::ordered_json file = nlohmann::ordered_json::object();
    if (exists("hf/" + name)) file = nlohmann::ordered_json::parse(read("hf/" + name));
    file["eos_token_id"] = eos;
    write("hf/" + name, file.dump());
  }
  nlohmann::json generated(const std::string& model, const Arguments& more = {}) {
    return json(
        Arguments{"generate", model, "--tokens", "8", "--temperature", "0", "--prompt", "ab"} +
        more);
  }
  std::vector<int> tokens(const std::string& model) { return generated(model)["tokens"]; }
};

TEST_F(CliSpecialTokens, ThePromptHasThoseOfTheTemplateUnlessToldOtherwise) {
  EXPECT_EQ(generated("hf")["prompt_tokens"], (std::vector<int>{kBegin, 0, 1}));
  const nlohmann::json plain = generated("hf", {"--no-special-tokens"});
  EXPECT_EQ(plain["prompt_tokens"], (std::vector<int>{0, 1}));
  EXPECT_NE(plain["tokens"], generated("hf")["tokens"]);
  EXPECT_EQ(json({"generate", "hf", "-p", "ab", "-n", "8", "--temperature", "0"})["tokens"],
            generated("hf")["tokens"]);
  // Those in the text are tokens either way.
  const Arguments own = {"--prompt", "<s>ab", "--no-special-tokens"};
  EXPECT_EQ(json(Arguments{"generate", "hf", "--tokens", "0"} + own)["prompt_tokens"],
            (std::vector<int>{kBegin, 0, 1}));
  EXPECT_EQ(json({"generate", "hf", "--tokens", "0"})["prompt_tokens"], std::vector<int>{kBegin});
  // Documents in a token file end with their token and begin with none.
  write("a.txt", "ab");
  json({"data", "tokenize", "a.txt", "--tokenizer", "hf", "--out", "a.tokens"});
  EXPECT_EQ(json({"data", "inspect", "a.tokens"})["tokens"], 3);
}

TEST_F(CliSpecialTokens, WhatIsNotReadOfAPromptIsSaid) {
  const Ran ran = run({"generate", "hf", "--tokens", "1", "--prompt", std::string(24, 'a')});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.err.find("warning: the prompt has 25 tokens, the model reads 24 at most"),
            std::string::npos)
      << ran.err;
  EXPECT_EQ(run({"generate", "hf", "--tokens", "1", "--prompt", std::string(23, 'a')})
                .err.find("warning"),
            std::string::npos);
  std::filesystem::remove(dir_ / "hf/tokenizer.json");
  refused({"generate", "hf", "-q"}, 4, {"hf has no tokenizer.json; name it with --tokenizer"});
}

TEST_F(CliSpecialTokens, AnyTokenThatEndsATextEndsIt) {
  const std::vector<int> all = tokens("hf");
  ASSERT_EQ(all.size(), 8U);
  const auto until = [&](int stop) {
    return std::vector<int>(all.begin(), std::find(all.begin(), all.end(), stop));
  };
  ends("config.json", all[3]);
  EXPECT_EQ(tokens("hf"), until(all[3]));
  ends("config.json", {kEnd, all[5], 99});
  EXPECT_EQ(tokens("hf"), until(all[5]));
  // generation_config.json is asked first, as transformers does.
  ends("generation_config.json", all[2]);
  EXPECT_EQ(tokens("hf"), until(all[2]));
  std::filesystem::remove(dir_ / "hf/generation_config.json");
  write("hf/tokenizer_config.json", R"({"eos_token": {"content": "<|eot|>"}})");
  json({"import", "hf", "--out", "in"});
  EXPECT_EQ(tokens("in"), until(all[5]));
}

TEST_F(CliSpecialTokens, TheyGoFromAnImportToAnExport) {
  ends("config.json", {29, 7});
  ends("generation_config.json", {29, 28});
  nlohmann::ordered_json sampling =
      nlohmann::ordered_json::parse(read("hf/generation_config.json"));
  sampling["temperature"] = 0.6;
  write("hf/generation_config.json", sampling.dump());
  json({"import", "hf", "--out", "in"});
  // Token files of a bare tokenizer.json do not know them, the checkpoint does.
  std::filesystem::create_directory(dir_ / "bare");
  std::filesystem::copy(dir_ / "hf/tokenizer.json", dir_ / "bare/tokenizer.json");
  write("a.txt", std::string(500, 'a'));
  json({"data", "tokenize", "a.txt", "--tokenizer", "bare", "--out", "a.tokens"});
  json({"train", "--from", "in", "--data.kind=tokens", "--data.path=a.tokens", "--train.steps=1",
        "--batch.global=1", "--data.eval_fraction=0", "-q"});
  for (const char* model : {"in", "out"}) {
    const std::string to = std::string(model) + "-hf";
    json({"export", model, "--out", to});
    const nlohmann::json config = nlohmann::json::parse(read(to + "/config.json"));
    EXPECT_EQ(config["eos_token_id"], (std::vector<int>{29, 28})) << model;
    EXPECT_EQ(config["bos_token_id"], 1) << model;  // as config.json had it
    const nlohmann::json generation = nlohmann::json::parse(read(to + "/generation_config.json"));
    EXPECT_EQ(generation["eos_token_id"], config["eos_token_id"]) << model;
    EXPECT_EQ(generation["temperature"], 0.6) << model;
  }
}

TEST_F(CliSpecialTokens, ATrainedModelExportsThemAndAWrongFileIsRefused) {
  write("a.txt", std::string(500, 'a'));
  json(Arguments{"train", "--data.kind=text", "--data.path=a.txt", "-q"} + tiny("bytes", 1));
  json({"export", "bytes", "--out", "bytes-hf"});
  json({"data", "tokenize", "a.txt", "--tokenizer", "hf", "--out", "a.tokens"});
  json({"train", "--data.kind=tokens", "--data.path=a.tokens", "--model.preset=tiny-llama",
        "--train.steps=1", "--batch.global=1", "--data.eval_fraction=0", "-q", "--run.out=own",
        "--model.seq=16"});
  json({"export", "own", "--out", "own-hf"});
  for (const char* file : {"/config.json", "/generation_config.json"}) {
    const nlohmann::json bytes = nlohmann::json::parse(read(std::string("bytes-hf") + file));
    EXPECT_EQ(bytes["eos_token_id"], 0);
    EXPECT_TRUE(bytes["bos_token_id"].is_null());
    const nlohmann::json own = nlohmann::json::parse(read(std::string("own-hf") + file));
    EXPECT_EQ(own["eos_token_id"], kEnd);
    EXPECT_EQ(own["bos_token_id"], kBegin);
  }
  ends("generation_config.json", "</s>");
  refused({"generate", "hf"}, 4, {"generation_config.json: eos_token_id is \"</s>\"", "token id"});
}

}  // namespace
}  // namespace sextant
