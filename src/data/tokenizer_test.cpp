#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/corpus.h"
#include "data/pattern.h"
#include "formats/json.h"
#include "support/built.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using nlohmann::json;

std::string fixture(const std::string& name) {
  DiskStorage storage;
  return read_text(storage, source_dir() + "/tests/data/tokenizers/" + name);
}

// A tokenizer over a few letters, for tests to modify.
json small() {
  return json::parse(R"({
    "added_tokens": [{"id": 9, "content": "<|endoftext|>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE",
              "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 5, "\u0120a": 6,
                        "bc": 7, "aa": 8},
              "merges": ["a b", ["ab", "c"], "\u0120 a", "b c", "a a"]}})");
}

Tokenizer make(const json& file) {
  return Tokenizer::from_json(file.dump(), "t.json");
}

using Ids = std::vector<int32_t>;

class TokenizerJson : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_patterns()) GTEST_SKIP() << "this build has no PCRE2";
  }
};

TEST(Tokenizer, BytesAreTheirOwnIds) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer.vocab(), 256);
  EXPECT_EQ(tokenizer.eod(), 0);
  const std::string text = std::string("a\xff\n\0z", 5);
  const std::vector<int32_t> ids = tokenizer.encode(text);
  EXPECT_EQ(ids, (std::vector<int32_t>{'a', 255, '\n', 0, 'z'}));
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST_F(TokenizerJson, MergesByRankFromTheLeft) {
  const Tokenizer tokenizer = make(small());
  EXPECT_EQ(tokenizer.vocab(), 10);
  EXPECT_EQ(tokenizer.eod(), 9);
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<int32_t>{4}));
  EXPECT_EQ(tokenizer.encode("aaab"), (std::vector<int32_t>{8, 3}));
  EXPECT_EQ(tokenizer.encode("bc a"), (std::vector<int32_t>{7, 6}));
  EXPECT_EQ(tokenizer.encode("ab<|endoftext|>a"), (std::vector<int32_t>{3, 9, 0}));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{4, 6, 9, 77, -1}), "abc a<|endoftext|>");
}

TEST_F(TokenizerJson, FilesSayWhatBeginsAndEndsAText) {
  const auto with = [](const json& json_file, std::vector<TokenizerFiles::File> more) {
    more.insert(more.begin(), {std::string(kTokenizerJson), json_file.dump()});
    return Tokenizer::from_files({more}, "t.json");
  };
  const json file = small();
  EXPECT_EQ(make(file).eos(), Ids{9});
  EXPECT_FALSE(make(file).bos());
  const TokenizerFiles::File named = {"tokenizer_config.json",
                                      R"({"bos_token": "abc", "eos_token": {"content": "c"}})"};
  EXPECT_EQ(with(file, {named}).bos(), 4);
  EXPECT_EQ(with(file, {named}).eos(), (Ids{2, 9}));  // the end of a document ends any text
  const TokenizerFiles::File numbered = {"generation_config.json",
                                         R"({"bos_token_id": 3, "eos_token_id": [7, 9, -1]})"};
  EXPECT_EQ(with(file, {named, numbered}).bos(), 3);
  EXPECT_EQ(with(file, {named, numbered}).eos(), (Ids{7, 9}));
  json begins = file;
  begins["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "abc"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"abc", {{"ids", {4}}}}}}};
  EXPECT_EQ(make(begins).bos(), 4);
  EXPECT_ERROR(with(file, {{"generation_config.json", "[]"}}), Data,
               "t.json: generation_config.json: a JSON object");
  EXPECT_ERROR(with(file, {{"tokenizer_config.json", "{"}}), Data, "t.json: tokenizer_config.json");
}

TEST_F(TokenizerJson, ByteThatTheVocabularyLacksIsLeftOutOrUnknown) {
  EXPECT_EQ(make(small()).encode("axxb"), (std::vector<int32_t>{3}));
  json file = small();
  file["model"]["unk_token"] = "c";
  EXPECT_EQ(make(file).encode("axxb"), (std::vector<int32_t>{0, 2, 2, 1}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(make(file).encode("axxb"), (std::vector<int32_t>{0, 2, 1}));
}

TEST_F(TokenizerJson, IdsEqualTheRecordedOnesOfTheReference) {
  for (const std::string name : {"gpt2-like", "llama3-like", "qwen-like", "odd"}) {
    const Tokenizer tokenizer = Tokenizer::from_json(fixture(name + ".json"), name);
    Encoder encoder(tokenizer);
    for (const json& expected : parse_json_strict(fixture(name + ".expected.json"), "expected")) {
      const std::string text = expected["text"];
      std::vector<int32_t> ids, special;
      encoder.encode(ids, text);
      encoder.encode(special, text, Specials::With);
      EXPECT_EQ(ids, expected["ids"].get<std::vector<int32_t>>()) << name << ": " << text;
      EXPECT_EQ(special, expected["special"].get<std::vector<int32_t>>()) << name << ": " << text;
    }
  }
}

TEST_F(TokenizerJson, DecodeGivesBackWhatWasEncoded) {
  for (const std::string name : {"gpt2-like", "llama3-like"}) {
    const Tokenizer tokenizer = Tokenizer::from_json(fixture(name + ".json"), name);
    for (const json& expected : parse_json_strict(fixture(name + ".expected.json"), "expected")) {
      const std::string text = expected["text"];
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST_F(TokenizerJson, WordOfAMillionLettersTakesNoQuadraticTime) {
  const Tokenizer tokenizer = make(small());
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(tokenizer.encode(text), std::vector<int32_t>(1 << 19, 8));
}

TEST_F(TokenizerJson, OpensByPathOrDirectoryAndNamesWhatIsMissing) {
  TempDir dir;
  DiskStorage storage;
  replace_file(storage, dir / "tokenizer.json", small().dump());
  EXPECT_EQ(Tokenizer::open(storage, dir.path()).vocab(), 10);
  EXPECT_EQ(Tokenizer::open(storage, dir / "tokenizer.json").vocab(), 10);
  EXPECT_EQ(Tokenizer::open(storage, "").vocab(), 256);
  EXPECT_ERROR(Tokenizer::open(storage, dir / "absent.json"), Data, "does not exist");
}

TEST_F(TokenizerJson, TextMustBeUtf8) {
  EXPECT_ERROR(make(small()).encode("a\xff"), Data, "not UTF-8");
}

TEST_F(TokenizerJson, CharactersWithByteFallbackAndSpacesByMetaspace) {
  const json file = json::parse(R"({
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true,
              "vocab": {"<unk>": 0, "<0xC3>": 1, "<0xA9>": 2, "a": 3, "b": 4, "_": 5, "_a": 6},
              "merges": ["_ a"]},
    "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})");
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(tokenizer.encode("a b"), (Ids{6, 5, 4}));
  EXPECT_EQ(tokenizer.encode("b\u00e9"), (Ids{5, 4, 1, 2}));  // known bytes
  EXPECT_EQ(tokenizer.encode("xyb"), (Ids{5, 0, 4}));         // unknown ones are fused
  EXPECT_EQ(tokenizer.decode(Ids{6, 5, 4, 1, 2}), "a b\u00e9");
  EXPECT_EQ(tokenizer.bytes_of(6), " a");
}

struct Bend {
  const char* pointer;  // JSON pointer of the replaced value
  const char* value;
  const char* message;
};

TEST_F(TokenizerJson, RefusesWhatIsMalformedOrUnsupportedInOneLine) {
  const Bend bends[] = {
      {"/model/vocab", "null", "has no vocab"},
      {"/model/vocab", "{}", "is empty"},
      {"/model/vocab", "[1]", "must be an object"},
      {"/model/vocab/a", "-1", "must be an id"},
      {"/model/vocab/a", "99999999999", "must be an id"},
      {"/model/vocab/a", "1", "gives id 1"},
      {"/model/vocab/a", "\"x\"", "must be an id"},
      {"/model/merges", "null", "has no merges"},
      {"/model/merges/0", "\"a\"", "one space between"},
      {"/model/merges/0", "\"a b c\"", "one space between"},
      {"/model/merges/0", "[1, 2]", "must be \"left right\" or a pair"},
      {"/model/merges/0", "\"a zz\"", "\"zz\", which the vocabulary lacks"},
      {"/model/merges/0", "\"c a\"", "\"ca\", which the vocabulary lacks"},
      {"/model/type", "\"WordPiece\"", "type \"WordPiece\" is not supported"},
      {"/model/dropout", "0.1", "dropout is not supported"},
      {"/model/byte_fallback", "true", "byte_fallback is not supported"},
      {"/model/end_of_word_suffix", "\"</w>\"", "end_of_word_suffix is not supported"},
      {"/model/unk_token", "\"?\"", "not in the vocabulary"},
      {"/model/ignore_merges", "1", "must be true or false"},
      {"/normalizer", R"({"type": "Lowercase"})", "type \"Lowercase\" is not supported"},
      {"/pre_tokenizer", "null", "decoder: type \"ByteLevel\" is not supported, only Sequence"},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": ""})", "replacement is empty"},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
       "must be always, first or never"},
      {"/normalizer", R"({"type": "Replace", "pattern": {"Regex": "a"}})", "must have a String"},
      {"/pre_tokenizer", R"({"type": "Whitespace"})", "type \"Whitespace\" is not supported"},
      {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": []})", "no ByteLevel step"},
      {"/pre_tokenizer",
       R"({"type": "Split", "behavior": "MergedWithNext", "pattern": {"Regex": "a"}})",
       "behavior \"MergedWithNext\" is not supported"},
      {"/pre_tokenizer", R"({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "("}})",
       "pattern cannot be read"},
      {"/pre_tokenizer",
       R"({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[a&&b]"}})",
       "not supported"},
      {"/post_processor", R"({"type": "BertProcessing"})", "type \"BertProcessing\""},
      {"/decoder", R"({"type": "WordPiece"})", "type \"WordPiece\" is not supported"},
      {"/truncation", R"({"max_length": 4})", "truncation is not supported"},
      {"/added_tokens/0/id", "12", "must be 9, the next that is free"},
      {"/added_tokens/0/content", "\"a\"", "must be 0 as in the vocabulary"},
      {"/added_tokens/0/content", "\"\"", "empty content"},
      {"/added_tokens/0/content", "5", "must be a string"},
  };
  for (const Bend& bend : bends) {
    json file = small();
    file[json::json_pointer(bend.pointer)] = json::parse(bend.value);
    EXPECT_ERROR(make(file), Data, bend.message);
    try {
      make(file);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("t.json", 0), 0u) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_ERROR(Tokenizer::from_json("{", "t.json"), Data, "not valid JSON");
  EXPECT_ERROR(Tokenizer::from_json("[]", "t.json"), Data, "must be an object");
}

TEST_F(TokenizerJson, TemplatePutsSpecialTokensAroundOnlyWhenAsked) {
  json file = small();
  file["post_processor"] = json::parse(R"({
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "E", "type_id": 0}}],
    "special_tokens": {"B": {"id": "B", "ids": [9]}, "E": {"id": "E", "ids": [9, 0]}}})");
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(tokenizer.encode("ab"), (std::vector<int32_t>{3}));
  EXPECT_EQ(tokenizer.encode("ab", Specials::With), (std::vector<int32_t>{9, 3, 9, 0}));
  file["post_processor"]["special_tokens"]["E"]["ids"] = {10};
  EXPECT_ERROR(make(file), Data, "uses id 10");
}

}  // namespace
}  // namespace sextant
