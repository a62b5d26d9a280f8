#include "data/bpe_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "data/byte_alphabet.h"
#include "data/nfc.h"

namespace sextant {
namespace {

using Words = std::vector<std::string_view>;

void put(Words& out, std::string_view word) {
  if (!word.empty()) out.push_back(word);
}

void cut_all(Words& words, Words& next, const std::vector<WordSplit>& splits, PatternSpace& space) {
  for (const WordSplit& split : splits) {
    next.clear();
    for (const std::string_view word : words) cut_words(next, split, word, space);
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

// Encodes normalized text with Metaspace; `is_first`: it begins the whole text.
void encode_spaced(std::vector<int32_t>& ids, const BpeTokenizer& tokenizer, std::string_view text,
                   bool is_first, BpeWorkspace& work) {
  const Metaspace& spaces = *tokenizer.spaces;
  work.word = replace_all(text, " ", spaces.replacement);
  const bool prepends = spaces.prepend == Metaspace::Prepend::Always ||
                        (spaces.prepend == Metaspace::Prepend::First && is_first);
  if (prepends && !work.word.starts_with(spaces.replacement))
    work.word.insert(0, spaces.replacement);
  const std::string_view all = work.word;
  for (size_t at = 0; at < all.size();) {
    const size_t next = spaces.splits ? all.find(spaces.replacement, at + 1) : all.npos;
    tokenizer.model.encode(ids, all.substr(at, next == all.npos ? next : next - at), work.model);
    at = std::min(next, all.size());
  }
}

void encode_stretch(std::vector<int32_t>& ids, const BpeTokenizer& tokenizer, std::string_view text,
                    bool is_first, BpeWorkspace& work) {
  if (tokenizer.spaces)
    encode_spaced(ids, tokenizer, text, is_first, work);
  else
    encode_text(ids, tokenizer, text, work);
}

}  // namespace

// Matches become words, and so does the text between them unless it is dropped. An empty match
// splits the text at its place, except directly after another match.
void cut_words(Words& out, const WordSplit& split, std::string_view text, PatternSpace& space) {
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

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t found = text.find(from, at);
    out += text.substr(at, found - at);
    if (found == text.npos) return out;
    out += to;
    at = found + from.size();
  }
}

std::string normalized_text(const std::vector<NormalizeStep>& steps, std::string_view text) {
  std::string out(text);
  for (const NormalizeStep& step : steps) {
    if (step.kind == NormalizeStep::Kind::Nfc) out = to_nfc(out);
    if (step.kind == NormalizeStep::Kind::Replace) out = replace_all(out, step.from, step.to);
    if (step.kind == NormalizeStep::Kind::Prepend && !out.empty()) out.insert(0, step.to);
  }
  return out;
}

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
    if (!tokenizer.normalize.empty()) {
      work.text = normalized_text(tokenizer.normalize, stretch);
      stretch = work.text;
    }
    work.inner.clear();
    tokenizer.normalized_tokens.split(work.inner, stretch, *work.patterns);
    for (const AddedTokenFinder::Piece& inner : work.inner) {
      if (inner.id >= 0) {
        ids.push_back(inner.id);
      } else {
        encode_stretch(ids, tokenizer, inner.text,
                       piece.text.data() == text.data() && inner.text.data() == stretch.data(),
                       work);
      }
    }
  }
}

}  // namespace sextant
