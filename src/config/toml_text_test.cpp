#include "config/toml_text.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(TomlText, FlattensTablesInOrderOfLines) {
  const std::vector<TomlEntry> entries =
      read_toml("b = 1\n[z]\ny = \"s\"\nx.w = 1.5\n[a]\nt = true\n", "f");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].key, "b");
  EXPECT_EQ(entries[1].key, "z.y");
  EXPECT_EQ(entries[1].value, Value(std::string("s")));
  EXPECT_EQ(entries[2].key, "z.x.w");
  EXPECT_EQ(entries[2].line, 4);
  EXPECT_EQ(entries[3].value, Value(true));
}

TEST(TomlText, WhatIsNoSettingHasAKindAndNoValue) {
  const std::vector<TomlEntry> entries = read_toml("a = [1]\nb = {}\nc = 10:00:00\n", "f");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].kind, "an array");
  EXPECT_EQ(entries[1].kind, "an empty table");
  EXPECT_EQ(entries[2].kind, "a date or time");
  for (const TomlEntry& entry : entries) EXPECT_FALSE(entry.value);
}

TEST(TomlText, TextWithoutQuotesIsToldSo) {
  for (const char* text : {"a = 1\nb = tiny\n", "a = 1\nb = data/x.bin", "a = 1\nb=  /data"})
    EXPECT_ERROR(read_toml(text, "f"), Config, "; text needs quotes: key = \"value\"");
  try {
    read_toml("a = 1 2\n", "f");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("quotes"), std::string::npos) << error.what();
  }
}

TEST(TomlText, DepthAndSizeAreBounded) {
  EXPECT_ERROR(read_toml("a = " + std::string(100'000, '['), "f"), Config, "f:1: ");
  std::string dotted = "a";
  for (int i = 0; i < 100'000; ++i) dotted += ".a";
  EXPECT_ERROR(read_toml("x = 1\n" + dotted + " = 1\n", "f"), Config, "f:2: more than 64 dots");
  EXPECT_ERROR(read_toml("[" + dotted + "]\n", "f"), Config, "more than 64 dots");
  EXPECT_ERROR(read_toml(std::string((1 << 20) + 1, '\n'), "f"), Config, "at most 1048576");
}

TEST(TomlText, ManyLinesMayHaveDots) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a.k" + std::to_string(i) + " = 1.5 # ...\n";
  EXPECT_EQ(read_toml(text, "f").size(), 100u);
}

TEST(TomlText, LettersBeyondAsciiStandInQuotesAndComments) {
  const std::vector<TomlEntry> entries = read_toml(
      "\xef\xbb\xbf# \u00fc \"\na = \"\u00fc \\\" # ' \u00fc\" # \u00fc\n\"\u6f22\U0001F600\" = "
      "''\n",
      "f");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].value, Value(std::string("\u00fc \" # ' \u00fc")));
  EXPECT_EQ(entries[1].key, "\u6f22\U0001F600");
  EXPECT_ERROR(read_toml("x = 1\n\u00fc = 1\n", "f"), Config, "f:2: a letter beyond ASCII");
  EXPECT_ERROR(read_toml("x = 0x1\u03cb\n", "f"), Config, "f:1: a letter beyond ASCII");
  EXPECT_ERROR(read_toml("x = 'a' \u00fc\n", "f"), Config, "f:1: a letter beyond ASCII");
  EXPECT_ERROR(read_toml("x = '\u00fc'\n", "f"), Config, "use double quotes");
  EXPECT_ERROR(read_toml("x = \"\\\u00fc\"\n", "f"), Config, "an escape that TOML does not have");
  EXPECT_ERROR(read_toml("x = \"\xff\"\n", "f"), Config, "is not UTF-8");
  EXPECT_ERROR(read_toml("x = -a\"b\u00fc\"\n", "f"), Config, "f:1: ");
  EXPECT_ERROR(read_toml("x = \"a\ny = \"\u00fc\"\n", "f"), Config, "f:1: ");
}

TEST(TomlText, StringsHaveOneLine) {
  EXPECT_ERROR(read_toml("\nx = \"\"\"a\"\"\"\n", "f"), Config, "f:2: a string of several lines");
  EXPECT_ERROR(read_toml("x = '''a'''\n", "f"), Config, "a string of several lines");
  EXPECT_EQ(read_toml("x = \"\"\n", "f").at(0).value, Value(std::string()));
}

TEST(TomlText, AnErrorIsOneLine) {
  for (const char* text : {"a = \"x\ny\"", "\"a\\nb\" = ", "a = \x01", "\x01\n\x02"}) {
    try {
      read_toml(text, "f");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace sextant
