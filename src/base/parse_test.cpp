#include "base/parse.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

TEST(Parse, IntegersAreWholeTextsOrNothing) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("-9223372036854775808"), INT64_MIN);
  for (const char* bad : {"", " 1", "1 ", "+1", "1.0", "0x10", "1e3", "9223372036854775808", "a"})
    EXPECT_FALSE(parse_int(bad)) << bad;
}

TEST(Parse, NumbersAreFiniteWholeTexts) {
  EXPECT_EQ(parse_double("3e-4"), 3e-4);
  EXPECT_EQ(parse_double("-2"), -2.0);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "1,5", "1.5x", " 1"})
    EXPECT_FALSE(parse_double(bad)) << bad;
}

TEST(Parse, BooleansAreTrueAndFalse) {
  EXPECT_EQ(parse_bool("true"), true);
  EXPECT_EQ(parse_bool("false"), false);
  for (const char* bad : {"", "1", "True", "yes"}) EXPECT_FALSE(parse_bool(bad)) << bad;
}

TEST(Parse, BytesHaveBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("512B"), 512);
  EXPECT_EQ(parse_bytes("16MiB"), 16 << 20);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000);
  EXPECT_EQ(parse_bytes("24 GiB"), int64_t{24} << 30);
  EXPECT_EQ(parse_bytes("0"), 0);
  for (const char* bad : {"", "GiB", "-1", "1 XB", "nanB", "99999999TiB", "1e300"})
    EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Parse, CountsHaveThousandsToTrillions) {
  EXPECT_EQ(parse_count("950"), 950);
  EXPECT_EQ(parse_count("1e9"), 1'000'000'000);
  EXPECT_EQ(parse_count("124.5M"), 124'500'000);
  EXPECT_EQ(parse_count("7B"), 7'000'000'000);
  EXPECT_EQ(parse_count("1 T"), 1'000'000'000'000);
  for (const char* bad : {"", "B", "-7B", "7GB", "7b", "nan", "9999999999B"})
    EXPECT_FALSE(parse_count(bad)) << bad;
}

TEST(Format, BytesCountsAndDurationsAreShort) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 30), "3.00 GiB");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(124439808), "124.4M");
  EXPECT_EQ(format_duration(3725.4), "1:02:05");
  EXPECT_EQ(format_duration(65), "1:05");
  EXPECT_EQ(format_duration(-1), "0:00");
}

TEST(NearestName, FindsWhatWasMeantAndNothingElse) {
  const std::vector<std::string> names = {"train", "eval", "generate"};
  EXPECT_EQ(nearest_name("trian", names), "train");
  EXPECT_EQ(nearest_name("generat", names), "generate");
  EXPECT_FALSE(nearest_name("completely-else", names));
  EXPECT_FALSE(nearest_name("x", {}));
  EXPECT_EQ(did_you_mean("evl", names), ", did you mean 'eval'?");
  EXPECT_EQ(did_you_mean("completely-else", names), "");
}

TEST(Split, AndJoinUndoEachOther) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
  EXPECT_EQ(join(split("a,,b,", ','), ","), "a,,b,");
}

TEST(Utf8, IsValidWithoutOverlongFormsSurrogatesOrCutEnds) {
  for (const char* good : {"", "abc", "ü", "漢", "\U0001F600", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xe6\xbc", "\xff", "a\xc3"})
    EXPECT_FALSE(is_utf8(bad));
}

}  // namespace
}  // namespace sextant
