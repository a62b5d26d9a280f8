// A heap has the pairs by count; a popped pair whose count has changed goes back with the new one.
// Each pair lists the words that have (or had) it, so that a merge visits only those.
#include "data/bpe_merges.h"

#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace sextant {
namespace {

using PairKey = uint64_t;

PairKey key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Candidate {
  int64_t count;
  PairKey pair;
  // The largest count first, then the lowest pair.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct PairUse {
  int64_t count = 0;
  std::unordered_set<size_t> words;
};

class Learner {
 public:
  explicit Learner(std::vector<CountedWord> words) : words_(std::move(words)) {
    for (size_t i = 0; i < words_.size(); ++i)
      for (size_t j = 0; j + 1 < words_[i].ids.size(); ++j)
        add(key_of(words_[i].ids[j], words_[i].ids[j + 1]), i, 1);
    for (const auto& [pair, use] : uses_) queue_.push({use.count, pair});
  }

  // The most frequent pair; count 0 when there is none.
  Candidate next() {
    while (!queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const int64_t now = uses_.at(top.pair).count;
      if (top.count == now) return top;
      if (now > 0) queue_.push({now, top.pair});
    }
    return {0, 0};
  }

  void merge(PairKey pair, int32_t whole) {
    const std::unordered_set<size_t> words = std::move(uses_.at(pair).words);
    changed_.clear();
    for (const size_t word : words) merge_in(word, pair, whole);
    uses_.at(pair).words.clear();
    for (const PairKey other : changed_)
      if (uses_.at(other).count > 0) queue_.push({uses_.at(other).count, other});
  }

 private:
  void add(PairKey pair, size_t word, int64_t change) {
    PairUse& use = uses_[pair];
    use.count += change * words_[word].count;
    if (change > 0) use.words.insert(word);
  }

  void merge_in(size_t word, PairKey pair, int32_t whole) {
    std::vector<int32_t>& ids = words_[word].ids;
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair);
    size_t to = 0;
    for (size_t from = 0; from < ids.size();) {
      if (from + 1 >= ids.size() || ids[from] != left || ids[from + 1] != right) {
        ids[to++] = ids[from++];
        continue;
      }
      if (to > 0) {
        add(key_of(ids[to - 1], left), word, -1);
        note(key_of(ids[to - 1], whole), word);
      }
      if (from + 2 < ids.size()) {
        add(key_of(right, ids[from + 2]), word, -1);
        note(key_of(whole, ids[from + 2]), word);
      }
      ids[to++] = whole;
      from += 2;
    }
    ids.resize(to);
  }

  void note(PairKey pair, size_t word) {
    add(pair, word, 1);
    changed_.insert(pair);
  }

  std::vector<CountedWord> words_;
  std::unordered_map<PairKey, PairUse> uses_;
  std::priority_queue<Candidate> queue_;
  std::unordered_set<PairKey> changed_;  // pairs with a larger count
};

}  // namespace

std::vector<LearnedMerge> learn_merges(std::vector<std::string>& tokens,
                                       std::vector<CountedWord> words, int64_t vocab, int64_t least,
                                       const std::function<void(int64_t)>& on_merge) {
  std::unordered_map<std::string, int32_t> ids;
  for (size_t i = 0; i < tokens.size(); ++i) ids.emplace(tokens[i], static_cast<int32_t>(i));
  Learner learner(std::move(words));
  std::vector<LearnedMerge> merges;
  while (static_cast<int64_t>(tokens.size()) < vocab) {
    const Candidate best = learner.next();
    if (best.count < least) break;
    const auto left = static_cast<int32_t>(best.pair >> 32),
               right = static_cast<int32_t>(best.pair);
    const std::string text = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
    const auto [found, is_new] = ids.emplace(text, static_cast<int32_t>(tokens.size()));
    if (is_new) tokens.push_back(text);
    merges.push_back({left, right, found->second});
    learner.merge(best.pair, found->second);
    if (on_merge) on_merge(static_cast<int64_t>(merges.size()));
  }
  return merges;
}

}  // namespace sextant
