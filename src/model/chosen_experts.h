#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// The experts that the tokens of a global batch are sent to, for verify. Rounding can change which
// of two nearly equal logits is larger. The token then has another expert, and gradients differ by
// their whole size. So runs that are compared follow the choices of one of them. Ranks share it.
class ChosenExperts {
 public:
  // Of one layer: [tokens, chosen], -1 where a token is not known.
  struct Choices {
    int64_t chosen = 1;
    std::vector<int32_t> experts;
    double tokens() const {
      return static_cast<double>(experts.size()) / static_cast<double>(chosen);
    }
  };
  using Table = std::map<std::string, Choices>;  // by the name of the layer's router

  // Each token keeps its experts.
  ChosenExperts() = default;
  // Each token gets those that it has in this table, which must outlive it.
  explicit ChosenExperts(const Table& followed) : followed_(&followed) {}

  // Notes the choices of these tokens, then replaces them by those followed. True if one changed.
  //   choices: [tokens, chosen]
  bool exchange(const std::string& router, std::span<const int32_t> tokens,
                std::span<int32_t> choices);

  // What the run itself chose.
  const Table& own() const { return own_; }

 private:
  const Table* followed_ = nullptr;
  std::mutex mutex_;
  Table own_;
};

// Tokens with other experts, in any order.
int64_t differing_tokens(const ChosenExperts::Choices& a, const ChosenExperts::Choices& b);

}  // namespace sextant
