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

// A step of normalization. Replace: `from` by `to`; Prepend: `to` before a text that is not empty.
struct NormalizeStep {
  enum class Kind { Nfc, Replace, Prepend } kind = Kind::Nfc;
  std::string from, to;
};

// Spaces become a visible character, which also begins a text; the pieces of a text are cut before
// it where `splits`.
struct Metaspace {
  enum class Prepend { Always, First, Never };  // First: only at the start of the whole text
  std::string replacement;
  Prepend prepend = Prepend::Always;
  bool splits = true;
};

// The GPT-2 pattern, the default of a byte-level step.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// One step of splitting text into words.
struct WordSplit {
  Pattern pattern;
  Unmatched unmatched = Unmatched::Keep;
};

// The contents of a BPE tokenizer.json, byte-level or over characters. Immutable, shared by
// threads.
struct BpeTokenizer {
  std::vector<NormalizeStep> normalize;
  AddedTokenFinder raw_tokens;         // matched in the raw text
  AddedTokenFinder normalized_tokens;  // matched in the remaining text, normalized
  std::vector<WordSplit> before;       // splits before the prefix space is added
  bool adds_prefix_space = false;      // each piece of text starts with a space
  std::vector<WordSplit> after;        // splits after that, of the byte-level step
  std::optional<Metaspace> spaces;     // in place of the three above
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

std::string normalized_text(const std::vector<NormalizeStep>& steps, std::string_view text);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

// Appends the words of `text`: the matches, and what lies between them unless it is dropped.
void cut_words(std::vector<std::string_view>& out, const WordSplit& split, std::string_view text,
               PatternSpace& space);

// Appends the ids of valid UTF-8 text, without prefix and suffix.
void encode(std::vector<int32_t>& ids, const BpeTokenizer& tokenizer, std::string_view text,
            BpeWorkspace& work);

// Parses a tokenizer.json. Error(Data) in one line that starts with `name` and says what is
// missing, wrong or not supported.
BpeTokenizer parse_tokenizer_json(std::string_view text, const std::string& name);

}  // namespace sextant
