#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// A word as ids, and how often it occurs.
struct CountedWord {
  std::vector<int32_t> ids;
  int64_t count = 0;
};

struct LearnedMerge {
  int32_t left = 0, right = 0, whole = 0;
};

// Learns merges until there are `vocab` ids or no pair occurs `least` times. `tokens`: the text of
// each id so far; grows by one for each merge that makes a new text. Consumes `words`.
std::vector<LearnedMerge> learn_merges(std::vector<std::string>& tokens,
                                       std::vector<CountedWord> words, int64_t vocab, int64_t least,
                                       const std::function<void(int64_t)>& on_merge);

}  // namespace sextant
