#include "data/token_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "data/data_tokenizer.h"
#include "data/loader.h"
#include "data/token_writer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using Ids = std::vector<int32_t>;

// A byte-level tokenizer of 257 ids, the last an end token of this name.
Tokenizer small_tokenizer(const std::string& end) {
  std::string json = byte_tokenizer_files().json();
  const std::string none = "\"added_tokens\": []";
  const size_t at = json.find(none);
  json.replace(
      at, none.size(),
      "\"added_tokens\": [{\"id\": 256, \"content\": \"" + end + "\", \"special\": true}]");
  return Tokenizer::from_files({{{"tokenizer.json", json}, {"merges.txt", "none"}}},
                               "hf/tokenizer.json");
}

class TokenSetTest : public testing::Test {
 protected:
  // Documents of 10 tokens, each token its position from `first` on, modulo 251.
  void write(const std::string& name, const Tokenizer& tokenizer, int first, int documents) {
    TokenWriter writer(storage_, dir_ / name, tokenizer, LossMask::None);
    for (int i = 0; i < documents; ++i) {
      Ids ids;
      for (int j = 0; j < 10; ++j) ids.push_back((first + 10 * i + j) % 251);
      writer.append(ids, {});
    }
    writer.finish();
  }
  Loader open(const DataConfig& data) {
    LoaderSettings settings;
    settings.seq = 8;
    settings.vocab = 300;
    settings.seed = 3;
    return Loader::open(storage_, data, settings);
  }
  DataConfig tokens(const std::string& path) {
    DataConfig data;
    data.kind = DataKind::Tokens;
    data.path = dir_ / path;
    return data;
  }

  DiskStorage storage_;
  TempDir dir_;
};

TEST_F(TokenSetTest, ShardsGiveTheSamplesOfOneFile) {
  const Tokenizer bytes = Tokenizer::bytes();
  write("one.tokens", bytes, 0, 90);
  write("shards/a-0.tokens", bytes, 0, 20);
  write("shards/a-1.tokens", bytes, 200, 1);
  write("shards/a-2.tokens", bytes, 210, 69);
  std::ofstream(dir_ / "shards/README.md") << "not tokens";
  const Loader one = open(tokens("one.tokens"));
  for (const char* path : {"shards", "shards/a-*.tokens", "s?ards/a-[0-2].tokens"}) {
    const Loader many = open(tokens(path));
    ASSERT_EQ(many.samples(Split::Train), one.samples(Split::Train));
    ASSERT_EQ(many.samples(Split::Eval), one.samples(Split::Eval));
    for (const Split split : {Split::Train, Split::Eval}) {
      HostBatch left, right;
      one.fill(left, split, 0, one.samples(split));
      many.fill(right, split, 0, one.samples(split));
      EXPECT_EQ(left.tokens, right.tokens);
      EXPECT_EQ(left.targets, right.targets);
      EXPECT_EQ(left.starts, right.starts);
    }
  }
  EXPECT_ERROR(open(tokens("shards/b-*")), Data, "no file matches");
}

TEST_F(TokenSetTest, BlendHasExactSharesInEveryBlockAndDependsOnTheNumberAlone) {
  const Tokenizer bytes = Tokenizer::bytes();
  write("low.tokens", bytes, 0, 12);  // ids below 120
  write("high.tokens", bytes, 130, 12);
  DataConfig data = tokens("");
  data.path.clear();
  data.blend = "3 " + (dir_ / "low.tokens") + ", 1 " + (dir_ / "high.tokens");
  data.eval_fraction = 0.3;
  const Loader loader = open(data);
  HostBatch block, one;
  for (int64_t first : {int64_t{0}, 3 * kBlendBlock}) {
    loader.fill(block, Split::Train, first, kBlendBlock);
    int64_t low = 0;
    for (int64_t row = 0; row < kBlendBlock; ++row)
      low += block.tokens[static_cast<size_t>(row * 8)] < 125 ? 1 : 0;
    EXPECT_EQ(low, kBlendBlock * 3 / 4);
  }
  loader.fill(one, Split::Train, 3 * kBlendBlock + 77, 1);
  EXPECT_TRUE(std::equal(one.tokens.begin(), one.tokens.end(), block.tokens.begin() + 77 * 8));
  const std::vector<EvalSource> sources = loader.eval_sources();
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[1].first, sources[0].samples);
  loader.fill(one, Split::Eval, sources[1].first, 1);
  EXPECT_GE(one.tokens[0], 130);
  EXPECT_ERROR(parse_blend("web, 2 code"), Config, "'web' must be a weight");
  EXPECT_ERROR(parse_blend("0 web"), Config, "above 0");
}

TEST_F(TokenSetTest, TokenFilesKeepTheirTokenizer) {
  const Tokenizer tokenizer = small_tokenizer("<|endoftext|>");
  write("a.tokens", tokenizer, 0, 20);
  const Loader loader = open(tokens("a.tokens"));
  EXPECT_EQ(loader.tokenizer_files(), tokenizer.files());
  EXPECT_EQ(vocabulary_of(storage_, tokens("a.tokens")).ids, 257);
  write("b.tokens", small_tokenizer("</s>"), 0, 20);
  EXPECT_ERROR(open(tokens("*.tokens")), Data, "with another one");
  DataConfig wrong = tokens("a.tokens");
  wrong.tokenizer = "bytes";
  EXPECT_ERROR(open(wrong), Data, "was made with the tokenizer hf/tokenizer.json, not with");
}

TEST_F(TokenSetTest, DamagedTokenizerFilesAreFound) {
  write("a.tokens", small_tokenizer("<|endoftext|>"), 0, 20);
  std::string text = read_text(storage_, dir_ / "a.tokens");
  text[text.find("ByteLevel")] ^= 1;
  std::ofstream(dir_ / "a.tokens", std::ios::binary) << text;
  EXPECT_ERROR(open(tokens("a.tokens")), Data, "checksum of the tokenizer's files");
}

TEST_F(TokenSetTest, ForeignFilesTakeTheTokenizerBesideThem) {
  std::vector<uint16_t> header(512, 0), ids(400, 7);
  const int32_t values[] = {20240520, 1, 400};
  std::memcpy(header.data(), values, sizeof values);
  std::ofstream file(dir_ / "x.bin", std::ios::binary);
  file.write(reinterpret_cast<const char*>(header.data()), 1024);
  file.write(reinterpret_cast<const char*>(ids.data()), 800);
  file.close();
  EXPECT_TRUE(open(tokens("x.bin")).tokenizer().empty());
  EXPECT_NE(open(tokens("x.bin")).note().find("does not say its tokenizer"), std::string::npos);
  std::ofstream(dir_ / "tokenizer.json") << byte_tokenizer_files().json();
  EXPECT_EQ(open(tokens("x.bin")).tokenizer_files().json(), byte_tokenizer_files().json());
}

}  // namespace
}  // namespace sextant
