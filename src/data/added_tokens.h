#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/pattern.h"

namespace sextant {

// A token that is matched in the text itself, before any splitting or merging.
struct AddedToken {
  std::string content;  // UTF-8, not empty
  int32_t id = 0;
  bool is_special = false;
  bool is_single_word = false;     // only where no word character is adjacent
  bool takes_left_space = false;   // includes the white space before it
  bool takes_right_space = false;  // includes the white space after it
  bool is_normalized = false;      // matched after the others, in normalized text
};

// Finds a set of added tokens: the leftmost first, and there the longest.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  struct Piece {
    std::string_view text;
    int32_t id;  // token id, or -1: ordinary text
  };
  // Splits valid UTF-8 into tokens and the text between them; no piece is empty.
  void split(std::vector<Piece>& out, std::string_view text, PatternSpace& space) const;

 private:
  struct Node {
    std::map<unsigned char, int32_t> next;
    int32_t token = -1;
  };
  struct Found {
    int32_t token;
    size_t end;
  };
  std::optional<Found> longest_at(std::string_view text, size_t at) const;
  bool stands_alone(std::string_view text, size_t begin, size_t end, PatternSpace& space) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // a trie over bytes; node 0 is its root
  std::array<bool, 256> begins_token_{};
  std::optional<Pattern> word_;  // compiled when a token needs it
};

}  // namespace sextant
