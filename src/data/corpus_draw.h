#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/random.h"

namespace sextant {

// Random choices of one document, from its own random stream.
class Draw {
 public:
  Draw(uint64_t seed, std::string_view name) : random_(seed, name) {}

  int below(int bound) {
    return static_cast<int>(random_.below(static_cast<uint64_t>(bound), at_++));
  }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int n) { return below(n) == 0; }
  std::string_view pick(std::span<const std::string_view> words) {
    return words[static_cast<size_t>(below(static_cast<int>(words.size())))];
  }
  // A word other than `other`.
  std::string_view pick_other(std::span<const std::string_view> words, std::string_view other) {
    std::string_view word = pick(words);
    while (word == other) word = pick(words);
    return word;
  }
  // One of a few given phrases.
  template <class... Phrases>
  std::string_view any(const Phrases&... phrases) {
    const std::string_view all[] = {phrases...};
    return pick(all);
  }

 private:
  Random random_;
  uint64_t at_ = 0;
};

// Each writes one document, with a final newline.
std::string write_story(Draw& draw);
std::string write_letter(Draw& draw);
std::string write_dialogue(Draw& draw);
std::string write_entry(Draw& draw);
std::string write_rhymes(Draw& draw);
std::string write_sums(Draw& draw);
std::string write_counting(Draw& draw);
std::string write_walk(Draw& draw);
std::string write_words(Draw& draw);
std::string write_recipe(Draw& draw);
std::string write_log(Draw& draw);
std::string write_table(Draw& draw);

}  // namespace sextant
