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

enum class Unmatched { Keep, Drop };  // text between two matches
enum class Normalize { Nothing, Nfc };

// One step of splitting text into words.
struct WordSplit {
  Pattern pattern;
  Unmatched unmatched = Unmatched::Keep;
};

// The contents of a byte-level BPE tokenizer.json. Immutable, shared by threads.
struct BpeTokenizer {
  Normalize normalize = Normalize::Nothing;
  AddedTokenFinder raw_tokens;         // matched in the raw text
  AddedTokenFinder normalized_tokens;  // matched in the remaining text, normalized
  std::vector<WordSplit> before;       // splits before the prefix space is added
  bool adds_prefix_space = false;      // each piece of text starts with a space
  std::vector<WordSplit> after;        // splits after that, of the byte-level step
  BpeModel model;
  std::vector<std::string> text_of_id;  // bytes of each token, "" if there is none
  std::vector<int32_t> prefix, suffix;  // ids that the template adds around a text
  std::optional<int32_t> eod;
  bool decodes_without_first_space = false;
};

// Buffers for encoding on one thread.
struct BpeWorkspace {
  PatternScratch patterns = make_pattern_scratch();
  BpeModel::Scratch model;
  std::vector<AddedTokenFinder::Piece> pieces, inner;
  std::vector<std::string_view> words, next_words;
  std::string text;  // a piece after normalization
  std::string word;  // a word with its prefix space
};

// Appends the ids of valid UTF-8 text, without prefix and suffix.
void encode(std::vector<int32_t>& ids, const BpeTokenizer& tokenizer, std::string_view text,
            BpeWorkspace& work);

// Parses a tokenizer.json. Error(Data) in one line that starts with `name` and says what is
// missing, wrong or not supported.
BpeTokenizer parse_tokenizer_json(std::string_view text, const std::string& name);

}  // namespace sextant
