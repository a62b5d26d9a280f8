#include "data/bpe_tokenizer.h"

#include "base/error.h"
#include "data/byte_alphabet.h"
#include "data/nfc.h"

namespace sextant {
namespace {

using Words = std::vector<std::string_view>;

void put(Words& out, std::string_view word) {
  if (!word.empty()) out.push_back(word);
}

// Matches become words, and so does the text between them unless it is dropped. An empty match
// splits the text at its place, except directly after another match.
void cut(Words& out, const WordSplit& split, std::string_view text, PatternSpace& space) {
  size_t done = 0, from = 0;
  std::optional<size_t> last_end;
  while (from <= text.size()) {
    const std::optional<Pattern::Match> match = split.pattern.find(space, text, from);
    if (!match) break;
    if (match->begin == match->end && last_end == match->end) {
      if (match->end >= text.size()) break;
      from = match->end + utf8_length(text[match->end]);
      continue;
    }
    if (split.unmatched == Unmatched::Keep) put(out, text.substr(done, match->begin - done));
    put(out, text.substr(match->begin, match->end - match->begin));
    done = from = match->end;
    last_end = match->end;
  }
  if (split.unmatched == Unmatched::Keep) put(out, text.substr(done));
}

void cut_all(Words& words, Words& next, const std::vector<WordSplit>& splits, PatternSpace& space) {
  for (const WordSplit& split : splits) {
    next.clear();
    for (const std::string_view word : words) cut(next, split, word, space);
    words.swap(next);
  }
}

// Encodes normalized ordinary text: split, byte-level, merge.
void encode_text(std::vector<int32_t>& ids, const BpeTokenizer& tokenizer, std::string_view text,
                 BpeWorkspace& work) {
  work.words.assign(1, text);
  cut_all(work.words, work.next_words, tokenizer.before, *work.patterns);
  if (!tokenizer.adds_prefix_space) {
    cut_all(work.words, work.next_words, tokenizer.after, *work.patterns);
    for (const std::string_view word : work.words) tokenizer.model.encode(ids, word, work.model);
    return;
  }
  const Words stretches = work.words;
  for (const std::string_view stretch : stretches) {
    work.word.assign(stretch.starts_with(' ') ? "" : " ").append(stretch);
    work.words.assign(1, work.word);
    cut_all(work.words, work.next_words, tokenizer.after, *work.patterns);
    for (const std::string_view word : work.words) tokenizer.model.encode(ids, word, work.model);
  }
}

}  // namespace

void encode(std::vector<int32_t>& ids, const BpeTokenizer& tokenizer, std::string_view text,
            BpeWorkspace& work) {
  SXT_CHECK(text.size() < (size_t{1} << 30), Data, "a document of ", text.size(),
            " bytes cannot be tokenized in one piece; split it below 1 GiB");
  work.pieces.clear();
  tokenizer.raw_tokens.split(work.pieces, text, *work.patterns);
  for (const AddedTokenFinder::Piece& piece : work.pieces) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    std::string_view stretch = piece.text;
    if (tokenizer.normalize == Normalize::Nfc) {
      work.text = to_nfc(stretch);
      stretch = work.text;
    }
    work.inner.clear();
    tokenizer.normalized_tokens.split(work.inner, stretch, *work.patterns);
    for (const AddedTokenFinder::Piece& inner : work.inner) {
      if (inner.id >= 0) {
        ids.push_back(inner.id);
      } else {
        encode_text(ids, tokenizer, inner.text, work);
      }
    }
  }
}

}  // namespace sextant
