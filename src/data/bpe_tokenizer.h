#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/added_tokens.h"
#include "data/bpe.h"
#include "data/pattern.h"

namespace sextant {

enum class Unmatched { Keep, Drop };  // what becomes of text between two matches
enum class Normalize { Nothing, Nfc };

// One step of cutting text into words.
struct WordSplit {
  Pattern pattern;
  Unmatched unmatched = Unmatched::Keep;
};

// All that a byte-level BPE tokenizer.json says. Immutable, shared by threads.
struct BpeTokenizer {
  Normalize normalize = Normalize::Nothing;
  AddedTokenFinder raw_tokens;         // looked for in the text as it is
  AddedTokenFinder normalized_tokens;  // looked for in what is left, normalized
  std::vector<WordSplit> before;       // splits before the prefix space is added
  bool adds_prefix_space = false;      // each stretch of text begins with a space
  std::vector<WordSplit> after;        // splits after that: the byte-level step's own
  BpeModel model;
  std::vector<std::string> text_of_id;  // bytes of each token, "" where there is none
  std::vector<int32_t> prefix, suffix;  // ids that the template puts around a text
  std::optional<int32_t> eod;
};

// What encoding needs beside the tokenizer, for one thread.
struct BpeWorkspace {
  PatternScratch patterns = make_pattern_scratch();
  BpeModel::Scratch model;
  std::vector<AddedTokenFinder::Piece> pieces, inner;
  std::vector<std::string_view> words, next_words;
  std::string text;  // a stretch after normalization
  std::string word;  // a word that was given a prefix space
};

// Appends the ids of valid UTF-8 text, without prefix and suffix.
void encode(std::vector<int32_t>& ids, const BpeTokenizer& tokenizer, std::string_view text,
            BpeWorkspace& work);

// Reads a tokenizer.json. Throws Error(Data) with one line that begins with `name` and says what is
// missing, wrong or not supported.
BpeTokenizer parse_tokenizer_json(std::string_view text, const std::string& name);

}  // namespace sextant
