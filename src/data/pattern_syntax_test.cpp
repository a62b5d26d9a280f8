#include "data/pattern_syntax.h"

#include <gtest/gtest.h>

#include "data/pattern.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(PatternSyntax, CopiesWhatIsTheSameAndSpellsOutTheRest) {
  EXPECT_EQ(to_pcre2("a|b+(?=c)[^x-z]\\n\\.", "t"), "a|b+(?=c)[^x-z]\\n\\.");
  EXPECT_EQ(to_pcre2("\\u0041", "t"), "\\x{0041}");
  EXPECT_EQ(to_pcre2("[\\v\\h]", "t"), "[\\x{b}0-9a-fA-F]");
  EXPECT_EQ(to_pcre2("\\H", "t"), "[^0-9a-fA-F]");
  EXPECT_EQ(to_pcre2("\\p{Zs}", "t"), "[\\p{Zs}]");
  EXPECT_EQ(to_pcre2("(?i)a", "t"), "(?i)a");
}

TEST(PatternSyntax, RefusesWhatMeansSomethingElse) {
  for (const char* pattern :
       {"[a[b]]", "[a&&b]", "(?m:.)", "(?<name>a)", "a(?i)b", "a{2,3}+", "\\1", "\\K", "\\G",
        "\\p{Han}", "\\pL", "[\\W]", "[\\P{L}]", "\\xff", "(*UTF)", "\\u12", "[a", "a\\"})
    EXPECT_ERROR(to_pcre2(pattern, "t"), Data, "t: pattern");
}

TEST(Pattern, FindsFromAPlaceOnAndSeesWhatLiesBefore) {
  if (!has_patterns()) GTEST_SKIP() << "this build has no PCRE2";
  const PatternScratch scratch = make_pattern_scratch();
  const Pattern pattern("(?<=a)b+", "t");
  const auto match = pattern.find(*scratch, "bab bb abb", 2);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 2u);
  EXPECT_EQ(match->end, 3u);
  EXPECT_EQ(pattern.find(*scratch, "bab bb abb", 3)->begin, 8u);
  EXPECT_FALSE(pattern.find(*scratch, "", 0));
}

TEST(Pattern, KnowsCharactersThatAreNewerThanTheLibraryMayBe) {
  if (!has_patterns()) GTEST_SKIP() << "this build has no PCRE2";
  const PatternScratch scratch = make_pattern_scratch();
  const std::string letter = "\U00031350", digit = "\U0001CCF0", space = "\u180e";
  EXPECT_TRUE(Pattern("\\p{L}", "t").find(*scratch, letter, 0));
  EXPECT_FALSE(Pattern("[^\\p{Lo}]", "t").find(*scratch, letter, 0));
  EXPECT_FALSE(Pattern("\\P{L}", "t").find(*scratch, letter, 0));
  EXPECT_TRUE(Pattern("\\w", "t").find(*scratch, letter, 0));
  EXPECT_TRUE(Pattern("\\d", "t").find(*scratch, digit, 0));
  EXPECT_FALSE(Pattern("\\s", "t").find(*scratch, space, 0)) << "white space until Unicode 6.2";
}

TEST(Pattern, GivesUpWithAnErrorInsteadOfRunningForever) {
  if (!has_patterns()) GTEST_SKIP() << "this build has no PCRE2";
  const PatternScratch scratch = make_pattern_scratch();
  const Pattern pattern("(a+)+(a+)+(a+)+$", "t");
  EXPECT_ERROR(pattern.find(*scratch, std::string(200, 'a') + "b", 0), Data, "gave up");
}

}  // namespace
}  // namespace sextant
