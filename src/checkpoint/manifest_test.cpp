#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "checkpoint/digest.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

Manifest sample() {
  Manifest manifest;
  manifest.state = {10, {2, 33}, 18446744073709551615u, "[model]\npreset = \"tiny\"\n", "1 rank"};
  manifest.files = {{"weights-00000.safetensors", 120, std::string(32, 'a')},
                    {"weights-00001.safetensors", 60, std::string(32, '0')}};
  manifest.tensors = {{"a",
                       {4, 3},
                       DType::F32,
                       {{{{0, 0}, {4, 2}}, "weights-00000.safetensors", "a.left"},
                        {{{0, 2}, {4, 1}}, "weights-00001.safetensors", "a.right"}}},
                      {"optim.m.a", {}, DType::BF16, {{{}, "weights-00001.safetensors", "b"}}}};
  return manifest;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

template <class F>
void expect_refused(F&& change, const std::string& message) {
  Manifest manifest = sample();
  change(manifest);
  EXPECT_ERROR(parse_manifest(to_json(manifest), "m.json"), Data, message);
}

TEST(Digest, IsTheXxh3OfItsPieces) {
  // The published value of XXH3-128 for no input.
  EXPECT_EQ(digest_of(std::string_view("")), "99aa06d3014798d86001c324468d497f");
  Digest pieces;
  const std::string text = "one two three";
  pieces.add(std::as_bytes(std::span(text.data(), 5)));
  pieces.add(std::as_bytes(std::span(text.data() + 5, text.size() - 5)));
  EXPECT_EQ(pieces.hex(), digest_of(text));
}

TEST(Manifest, ReadsBackWhatItWrote) {
  EXPECT_EQ(parse_manifest(to_json(sample()), "m.json"), sample());
}

TEST(Manifest, RefusesEveryChangeOfAByte) {
  const std::string text = to_json(sample());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_ERROR(parse_manifest(changed, "m.json"), Data, "m.json: ");
  }
}

TEST(Manifest, RefusesEveryPrefixOfItself) {
  const std::string text = to_json(sample());
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_ERROR(parse_manifest(text.substr(0, size), "m.json"), Data, "m.json: ");
}

TEST(Manifest, VersionTwoHasTheFilesOfATokenizer) {
  Manifest manifest = sample();
  const std::string digest(32, 'a');
  manifest.tokenizer = {{"tokenizer.json", 10, digest}, {"merges.txt", 0, digest}};
  const std::string text = to_json(manifest);
  EXPECT_NE(text.find("\"version\": 2"), std::string::npos);
  EXPECT_EQ(parse_manifest(text, "m"), manifest);
  manifest.tokenizer = {{"merges.txt", 10, digest}};
  EXPECT_ERROR(parse_manifest(to_json(manifest), "m"), Data, "tokenizer.json comes first");
  manifest.tokenizer = {{"tokenizer.json", 10, digest}, {"../x", 10, digest}};
  EXPECT_ERROR(parse_manifest(to_json(manifest), "m"), Data, "../x");
}

TEST(Manifest, NamesALaterVersion) {
  EXPECT_ERROR(parse_manifest(replaced(to_json(sample()), "\"version\": 1", "\"version\": 3"), "m"),
               Data, "version \"3\" of the format; this build reads versions 1 and 2");
  EXPECT_ERROR(parse_manifest("{\"a\": 1}", "m"), Data, "not the manifest of a checkpoint");
  EXPECT_ERROR(parse_manifest("[]", "m"), Data, "not the manifest of a checkpoint");
}

TEST(Manifest, RefusesFieldsThatAreMissingUnknownOrOfAnotherType) {
  const std::string text = to_json(sample());
  const auto expect = [&](std::string_view from, std::string_view to, const std::string& message) {
    EXPECT_ERROR(parse_manifest(replaced(text, from, to), "m"), Data, message);
  };
  expect("\"step\": 10,", "", "step is missing");
  expect("\"step\"", "\"more\": 1, \"step\"", "unknown key \"more\"");
  expect("\"step\": 10", "\"step\": -1", "step is \"-1\"");
  expect("\"step\": 10", "\"step\": 1.5", "step is \"1.5\"");
  expect("\"step\": 10", "\"step\": 9223372036854775808", "at most 2^63 - 1");
  expect("\"layout\": \"1 rank\"", "\"layout\": 1", "layout is \"1\"; a string is needed");
  expect("\"epoch\": 2, ", "", "cursor: epoch is missing");
  expect("\"dtype\": \"F32\"", "\"dtype\": \"F31\"", "dtype \"F31\" is unknown");
  expect("\"shape\": [4, 3]", "\"shape\": [4, \"3\"]", "shape has");
}

TEST(Manifest, RefusesSlicesThatDoNotMakeTheTensor) {
  expect_refused([](Manifest& m) { m.tensors[0].slices.pop_back(); },
                 "tensor \"a\": slices hold 8 of its 12 elements");
  expect_refused([](Manifest& m) { m.tensors[0].slices[1].box.start[1] = 1; },
                 "slices from [0, 0] and [0, 1] overlap");
  expect_refused([](Manifest& m) { m.tensors[0].slices[1].box.start[1] = 3; },
                 "lies outside of [4, 3]");
  expect_refused([](Manifest& m) { m.tensors[0].slices[1].box.size = {12}; }, "for 2 dims");
  expect_refused([](Manifest& m) { m.tensors[0].slices[1].tensor = "b"; }, "is used twice");
  expect_refused([](Manifest& m) { m.tensors[0].slices[1].file = "x.safetensors"; },
                 "is not in the list of files");
  expect_refused(
      [](Manifest& m) {
        m.tensors[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
      },
      "is beyond 2^62 bytes");
  expect_refused([](Manifest& m) { m.tensors[0].shape[0] = 0; }, "has a dim of 0");
  expect_refused([](Manifest& m) { m.tensors[1].name = "a"; }, "listed twice");
}

TEST(Manifest, RefusesFilesThatCannotBe) {
  expect_refused([](Manifest& m) { m.files[0].name = "../x.safetensors"; }, "file name");
  expect_refused([](Manifest& m) { m.files[0].name = "latest"; }, "ending in .safetensors");
  expect_refused([](Manifest& m) { m.files[1].name = m.files[0].name; }, "is listed twice");
  expect_refused([](Manifest& m) { m.files[0].bytes = 0; }, "has 0 bytes");
  expect_refused([](Manifest& m) { m.files[0].xxh3_128 = "abc"; }, "not 32 hexadecimal digits");
  expect_refused(
      [](Manifest& m) {
        m.files.push_back({"x.safetensors", 1, std::string(32, 'b')});
      },
      "file x.safetensors holds no tensor");
}

}  // namespace
}  // namespace sextant
