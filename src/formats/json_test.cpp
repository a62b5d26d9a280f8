#include "formats/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"

namespace sextant {
namespace {

using nlohmann::json;
using namespace std::string_literals;

std::string nested(int levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(Json, ParsesEveryKindOfValue) {
  const json value = parse_json_strict(
      R"( {"a": [1, -2, 3.5, true, null, {"b": "\u00e9\ud83d\ude00"}], "c": {}, "d": []} )", "x");
  EXPECT_EQ(value.at("a").size(), 6u);
  EXPECT_TRUE(value.at("a")[0].is_number_unsigned());
  EXPECT_EQ(value.at("a")[1], -2);
  EXPECT_EQ(value.at("a")[2], 3.5);
  EXPECT_EQ(value.at("a")[3], true);
  EXPECT_TRUE(value.at("a")[4].is_null());
  EXPECT_EQ(value.at("a")[5].at("b"), "é😀");
  EXPECT_TRUE(value.at("c").is_object() && value.at("c").empty());
  EXPECT_TRUE(value.at("d").is_array() && value.at("d").empty());
  EXPECT_EQ(parse_json_strict("7", "x"), 7);
}

TEST(Json, GivesTheTreeOfTheLibraryForTextWithoutDuplicates) {
  const std::string text =
      R"([{"a":{"b":[{"c":1},{"c":2},[[],[{}]]]},"z":0.1},{"a":1e300,"b":18446744073709551615}])";
  EXPECT_EQ(parse_json_strict(text, "x"), json::parse(text));
}

TEST(Json, EqualKeysInDifferentObjectsAreFine) {
  EXPECT_EQ(parse_json_strict(R"([{"a":1},{"a":{"a":2}}])", "x")[1]["a"]["a"], 2);
}

TEST(Json, RefusesAKeyThatOccursTwice) {
  EXPECT_ERROR(parse_json_strict(R"({"a":1,"b":2,"a":3})", "f.json"), Data,
               "f.json: key \"a\" occurs twice");
  EXPECT_ERROR(parse_json_strict(R"([{"x":{"a":1,"\u0061":1}}])", "f"), Data, "occurs twice");
}

TEST(Json, BoundsTheNesting) {
  EXPECT_NO_THROW(parse_json_strict(nested(kJsonDepthLimit), "x"));
  EXPECT_ERROR(parse_json_strict(nested(kJsonDepthLimit + 1), "x"), Data, "deeper than 127");
  EXPECT_ERROR(parse_json_strict(std::string(1 << 20, '['), "x"), Data, "deeper than 127");
}

TEST(Json, NamesTheByteOfASyntaxError) {
  EXPECT_ERROR(parse_json_strict("{\"a\": nope}", "f.json"), Data,
               "f.json: not valid JSON at byte 8");
  EXPECT_ERROR(parse_json_strict("", "f"), Data, "not valid JSON");
  EXPECT_ERROR(parse_json_strict("{} {}", "f"), Data, "not valid JSON");
  EXPECT_ERROR(parse_json_strict("{\"a\":1,}", "f"), Data, "not valid JSON");
  EXPECT_ERROR(parse_json_strict("[NaN]", "f"), Data, "not valid JSON");
  EXPECT_ERROR(parse_json_strict("[1e999]", "f"), Data, "not valid JSON");
  EXPECT_ERROR(parse_json_strict("[1] // note", "f"), Data, "not valid JSON");
}

TEST(Json, RefusesWhatTheLibraryLetsPass) {
  EXPECT_ERROR(parse_json_strict("{}\0{}"s, "f"), Data, "at byte 2: a NUL byte");
  EXPECT_ERROR(parse_json_strict("\xEF\xBB\xBF{}", "f"), Data, "byte order mark");
}

TEST(Json, RefusesBytesThatAreNotUtf8InOnePrintableLine) {
  try {
    parse_json_strict("{\"a\n\xff\": \"" + std::string(1000, 'y') + "\"}", "f");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(text.find('\xff'), std::string::npos);
    EXPECT_LT(text.size(), 300u);
  }
  EXPECT_ERROR(parse_json_strict("\"\xc3\x28\"", "f"), Data, "not valid JSON");
  EXPECT_ERROR(parse_json_strict(R"("\ud800")", "f"), Data, "not valid JSON");
}

TEST(Json, QuotesTextAsAJsonString) {
  EXPECT_EQ(json_quoted("a\"\\\n\x01é"), "\"a\\\"\\\\\\n\\u0001é\"");
  EXPECT_ERROR(json_quoted("\xff"), Data, "not UTF-8");
}

TEST(Json, ManyObjectsInOneObjectParseInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":{\"a\":{}}";
  EXPECT_EQ(parse_json_strict(text + "}", "x").size(), 100000u);
}

}  // namespace
}  // namespace sextant
