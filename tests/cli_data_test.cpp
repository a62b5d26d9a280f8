// `sextant data` on every format it reads, whole and damaged.
#include <cstring>

#include "support/cli.h"

namespace sextant {
namespace {

class CliData : public CliTest {
 protected:
  static std::string tokenizer(const std::string& name) {
    return source_dir() + "/tests/data/tokenizers/" + name;
  }
  template <class T>
  static std::string raw(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
};

// {"text":"one"} and {"text":"zwei"}, each on a line, compressed.
const unsigned char kZstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0xe5, 0x00, 0x00, 0xb0, 0x7b,
                               0x22, 0x74, 0x65, 0x78, 0x74, 0x22, 0x3a, 0x22, 0x6f, 0x6e, 0x65,
                               0x22, 0x7d, 0x0a, 0x7a, 0x77, 0x65, 0x69, 0x22, 0x7d, 0x0a, 0x01,
                               0x00, 0x52, 0xcc, 0x3a, 0x5b, 0xee, 0xf7, 0xf7};

TEST_F(CliData, TokenizesTextAndJsonl) {
  write("a.txt", "hello\nworld\n");
  nlohmann::json document = json({"data", "tokenize", "a.txt", "--out", "made/here/a.tok"});
  EXPECT_EQ(document["documents"], 1);
  EXPECT_EQ(document["tokens"], 13);  // twelve bytes and the end of the document
  EXPECT_EQ(document["vocab"], 256);
  document = json({"data", "tokenize", "a.txt", "--split", "lines", "--out", "lines.tok"});
  EXPECT_EQ(document["documents"], 2);
  write("b.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
  document = json({"data", "tokenize", "a.txt", "b.jsonl", "--out", "ab.tok"});
  EXPECT_EQ(document["documents"], 3);
  EXPECT_EQ(document["tokens"], 21);
  document = json({"data", "tokenize", "b.jsonl", "--out", "bpe.tok", "--tokenizer",
                   tokenizer("gpt2-like.json")});
  EXPECT_EQ(document["vocab"], 500);
}

TEST_F(CliData, TokenizesCompressedJsonl) {
  write("c.jsonl.zst", std::string(reinterpret_cast<const char*>(kZstd), sizeof kZstd));
  const Arguments tokenize = {"data", "tokenize", "c.jsonl.zst", "--out", "c.tok"};
  if (run({"--version"}).out.find("zstd") == std::string::npos) {
    refused(tokenize, 1, {"zstd"});
    return;
  }
  const nlohmann::json document = json(tokenize);
  EXPECT_EQ(document["documents"], 2);
  EXPECT_EQ(document["tokens"], 9);
  write("cut.jsonl.zst", std::string(reinterpret_cast<const char*>(kZstd), sizeof kZstd - 9));
  refused({"data", "tokenize", "cut.jsonl.zst", "--out", "x.tok"}, 4, {"cut.jsonl.zst"});
}

TEST_F(CliData, PromptsDoNotCountInTheLoss) {
  write("p.jsonl", "{\"prompt\":\"2+2=\",\"completion\":\"4\"}\n");
  ASSERT_EQ(run({"data", "tokenize", "p.jsonl", "--out", "p.tok"}).code, 0);
  const nlohmann::json document = json({"data", "inspect", "p.tok"});
  EXPECT_EQ(document["tokens"], 6);
  EXPECT_EQ(document["loss_tokens"], 2);
}

TEST_F(CliData, InspectsItsOwnFormat) {
  write("a.txt", "hello");
  ASSERT_EQ(run({"data", "tokenize", "a.txt", "--out", "a.tok"}).code, 0);
  const nlohmann::json document = json({"data", "inspect", "a.tok", "--tokenizer", "bytes"});
  EXPECT_EQ(document["format"], "sextant");
  EXPECT_EQ(document["documents"], 1);
  EXPECT_EQ(document["tokens"], 6);
  EXPECT_EQ(document["vocab"], 256);
  EXPECT_EQ(document["max_id"], 'o');
  EXPECT_EQ(document["checksums"], true);
  EXPECT_TRUE(document["first_text"].get<std::string>().starts_with("hello"));
  EXPECT_NE(run({"data", "inspect", "a.tok"}).out.find("every checksum right"), std::string::npos);
}

TEST_F(CliData, InspectsLlmcFiles) {
  std::vector<int32_t> head(256, 0);
  head[0] = 20240520;
  head[1] = 1;
  head[2] = 4;
  write("llmc.bin", raw(head) + raw(std::vector<uint16_t>{50256, 1, 2, 3}));
  const nlohmann::json document = json({"data", "inspect", "llmc.bin"});
  EXPECT_EQ(document["format"], "llm.c");
  EXPECT_EQ(document["tokens"], 4);
  EXPECT_EQ(document["max_id"], 50256);
  write("cut.bin", raw(head) + raw(std::vector<uint16_t>{50256, 1, 2}));
  refused({"data", "inspect", "cut.bin"}, 4, {"cut.bin"});
}

TEST_F(CliData, InspectsNanogptFilesOnlyWhenTold) {
  write("nano.bin", raw(std::vector<uint16_t>{7, 8, 50256, 9}));
  refused({"data", "inspect", "nano.bin"}, 4, {"nano.bin", "nanogpt"});
  const nlohmann::json document = json({"data", "inspect", "nano.bin", "--format", "nanogpt"});
  EXPECT_EQ(document["format"], "nanogpt");
  EXPECT_EQ(document["tokens"], 4);
  EXPECT_EQ(document["first_ids"], nlohmann::json({7, 8, 50256, 9}));
}

TEST_F(CliData, InspectsMegatronPairs) {
  const std::string index = std::string("MMIDIDX\0\0", 9) + raw(std::vector<uint64_t>{1}) +
                            std::string(1, '\x08') + raw(std::vector<uint64_t>{2, 3}) +
                            raw(std::vector<int32_t>{3, 2}) + raw(std::vector<int64_t>{0, 6}) +
                            raw(std::vector<int64_t>{0, 1, 2});
  write("mega.idx", index);
  write("mega.bin", raw(std::vector<uint16_t>{5, 6, 7, 8, 9}));
  for (const char* name : {"mega", "mega.bin", "mega.idx"}) {
    const nlohmann::json document = json({"data", "inspect", name});
    EXPECT_EQ(document["format"], "megatron") << name;
    EXPECT_EQ(document["tokens"], 5) << name;
    EXPECT_EQ(document["documents"], 2) << name;
  }
  write("mega.bin", raw(std::vector<uint16_t>{5, 6, 7, 8}));
  refused({"data", "inspect", "mega"}, 4, {"mega"});
}

TEST_F(CliData, UnknownAndDamagedFilesAreRefused) {
  write("text.txt", "just some text that is long enough for a header");
  write("empty", "");
  refused({"data", "inspect", "text.txt"}, 4, {"text.txt", "not a token file"});
  refused({"data", "inspect", "empty"}, 4, {"empty"});
  refused({"data", "inspect", "none"}, 4, {"none", "No such file"});
  refused({"data", "inspect", "."}, 4, {"cannot read .: a directory"});
  refused({"data", "inspect", "text.txt", "--format", "nanogtp"}, 2, {"did you mean 'nanogpt'?"});
  write("a.txt", std::string(3000, 'x'));
  ASSERT_EQ(run({"data", "tokenize", "a.txt", "--out", "a.tok"}).code, 0);
  const std::string good = read("a.tok");
  for (const size_t length : {size_t{1}, size_t{30}, good.size() / 2, good.size() - 1}) {
    write("cut.tok", good.substr(0, length));
    refused({"data", "inspect", "cut.tok"}, 4, {"cut.tok"});
  }
  for (const size_t place : {size_t{0}, size_t{20}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0x40);
    write("bad.tok", bad);
    refused({"data", "inspect", "bad.tok"}, 4, {"bad.tok"});
  }
}

TEST_F(CliData, InputThatIsNoTextIsRefusedAndLeavesNoOutput) {
  write("keys.jsonl", "{\"txt\":\"one\"}\n");
  write("cut.jsonl", "{\"text\":\"one\"}\n{\"text\":");
  write("good.txt", "x");
  const auto tokenize = [](const std::string& input) {
    return Arguments{"data", "tokenize", input, "--out", "x.tok"};
  };
  refused(tokenize("keys.jsonl"), 4, {"keys.jsonl:1", "\"text\""});
  refused(tokenize("cut.jsonl"), 4, {"cut.jsonl:2"});
  refused(tokenize("none.txt"), 4, {"none.txt"});
  refused({"data", "tokenize", "good.txt"}, 2, {"--out"});
  refused({"data", "tokenize", "good.txt", "--out", "good.txt/x.tok"}, 1, {"good.txt"});
  EXPECT_FALSE(exists("x.tok"));
}

TEST_F(CliData, ATokenizerThatIsNoneIsRefused) {
  write("good.txt", "x");
  const auto with = [&](const std::string& name, const std::string& text) {
    write(name, text);
    return Arguments{"data", "tokenize", "good.txt", "--out", "x.tok", "--tokenizer", name};
  };
  refused(with("a.json", "not json"), 4, {"a.json"});
  refused(with("b.json", "{}"), 4, {"b.json"});
  refused(with("c.json", "[1, 2]"), 4, {"c.json"});
  refused(with("d.json", R"({"model": {"type": "Unigram", "vocab": []}})"), 4, {"d.json"});
  refused(with("e.json", R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})"), 4,
          {"e.json"});
  refused(with("f.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})"), 4,
          {"f.json"});
  refused({"data", "tokenize", "good.txt", "--out", "x.tok", "--tokenizer", "none.json"}, 4,
          {"none.json", "bytes"});
  EXPECT_FALSE(exists("x.tok"));
}

}  // namespace
}  // namespace sextant
