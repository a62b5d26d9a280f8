#include "data/added_tokens.h"

#include <algorithm>

#include "data/byte_alphabet.h"

namespace sextant {
namespace {

bool is_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Start of the last UTF-8 character before `end`; end > 0.
size_t previous(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

size_t skip_space_left(std::string_view text, size_t at) {
  while (at > 0) {
    const size_t before = previous(text, at);
    if (!is_space(utf8_at(text, before))) break;
    at = before;
  }
  return at;
}

size_t skip_space_right(std::string_view text, size_t at) {
  while (at < text.size() && is_space(utf8_at(text, at))) at += utf8_length(text[at]);
  return at;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    size_t node = 0;
    for (const char c : tokens_[i].content) {
      const auto byte = static_cast<unsigned char>(c);
      const auto [slot, is_new] =
          nodes_[node].next.emplace(byte, static_cast<int32_t>(nodes_.size()));
      node = static_cast<size_t>(slot->second);
      if (is_new) nodes_.emplace_back();
    }
    // Of two tokens with equal content the first counts, as in a list of literal alternatives.
    if (nodes_[node].token < 0) nodes_[node].token = static_cast<int32_t>(i);
    begins_token_[static_cast<unsigned char>(tokens_[i].content.front())] = true;
    // Alphabetic, marks, decimal digits, connectors, joiners: the word characters of the reference.
    if (tokens_[i].is_single_word && !word_)
      word_.emplace(
          "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}"
          "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]",
          "word characters");
  }
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::longest_at(std::string_view text,
                                                                    size_t at) const {
  std::optional<Found> found;
  size_t node = 0;
  while (true) {
    if (nodes_[node].token >= 0) found = Found{nodes_[node].token, at};
    if (at == text.size()) return found;
    const auto next = nodes_[node].next.find(static_cast<unsigned char>(text[at]));
    if (next == nodes_[node].next.end()) return found;
    node = static_cast<size_t>(next->second);
    ++at;
  }
}

bool AddedTokenFinder::stands_alone(std::string_view text, size_t begin, size_t end,
                                    PatternSpace& space) const {
  const auto is_word = [&](size_t at) {
    return word_->find(space, text.substr(at, utf8_length(text[at])), 0).has_value();
  };
  return (begin == 0 || !is_word(previous(text, begin))) && (end == text.size() || !is_word(end));
}

void AddedTokenFinder::split(std::vector<Piece>& out, std::string_view text,
                             PatternSpace& space) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::optional<Found> found =
        begins_token_[byte] ? longest_at(text, at) : std::optional<Found>();
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found->token)];
    const size_t begin = at;
    at = found->end;  // the search continues after the token even if it is rejected
    if (token.is_single_word && !stands_alone(text, begin, found->end, space)) continue;
    const size_t from =
        token.takes_left_space ? std::max(skip_space_left(text, begin), done) : begin;
    const size_t to = token.takes_right_space ? skip_space_right(text, found->end) : found->end;
    if (done < from) out.push_back({text.substr(done, from - done), -1});
    out.push_back({text.substr(from, to - from), token.id});
    done = to;
  }
  if (done < text.size()) out.push_back({text.substr(done), -1});
}

}  // namespace sextant
