#include "data/added_tokens.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

AddedToken token(std::string content, int32_t id) {
  AddedToken out;
  out.content = std::move(content);
  out.id = id;
  return out;
}

// "text|<id>token|...": pieces, tokens with their id in front.
std::string split(const std::vector<AddedToken>& tokens, std::string_view text) {
  const PatternScratch scratch = make_pattern_scratch();
  std::vector<AddedTokenFinder::Piece> pieces;
  AddedTokenFinder(tokens).split(pieces, text, *scratch);
  std::string out;
  for (const auto& piece : pieces) {
    if (!out.empty()) out += '|';
    if (piece.id >= 0) out += '<' + std::to_string(piece.id) + '>';
    out += piece.text;
  }
  return out;
}

TEST(AddedTokens, LeftmostThenLongestWins) {
  const std::vector<AddedToken> tokens = {token("the", 1), token("theta", 2), token("eta!", 3)};
  EXPECT_EQ(split(tokens, "a theta! the eta!"), "a |<2>theta|! |<1>the| |<3>eta!");
  EXPECT_EQ(split(tokens, "th"), "th");
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split({}, "abc"), "abc");
}

TEST(AddedTokens, TakeTheSpaceBesideThemWhenTheySaySo) {
  std::vector<AddedToken> tokens = {token("[L]", 1), token("[R]", 2), token("[N]", 3)};
  tokens[0].takes_left_space = true;
  tokens[1].takes_right_space = true;
  EXPECT_EQ(split(tokens, "a \t[L] b"), "a|<1> \t[L]| b");
  EXPECT_EQ(split(tokens, "a [R]\u3000\n b"), "a |<2>[R]\u3000\n |b");
  EXPECT_EQ(split(tokens, "a [N] b"), "a |<3>[N]| b");
  EXPECT_EQ(split(tokens, "[R]  [L]"), "<2>[R]  |<1>[L]");  // the first token takes the space
}

TEST(AddedTokens, SingleWordsDoNotMatchInsideWords) {
  if (!has_patterns()) GTEST_SKIP() << "this build has no PCRE2";
  std::vector<AddedToken> tokens = {token("lamp", 1), token("amp", 2)};
  tokens[0].is_single_word = true;
  EXPECT_EQ(split(tokens, "lamp lamp. (lamp)"), "<1>lamp| |<1>lamp|. (|<1>lamp|)");
  // A rejected match is consumed too: "amp" inside it is not matched.
  EXPECT_EQ(split(tokens, "lamps amps"), "lamps |<2>amp|s");
  EXPECT_EQ(split(tokens, "\u00e9lamp lamp\u0301 lamp_"), "\u00e9lamp lamp\u0301 lamp_");
}

}  // namespace
}  // namespace sextant
