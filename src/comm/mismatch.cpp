#include "comm/mismatch.h"

#include <vector>

#include "base/error.h"

namespace sextant {

std::string describe_mismatch(const std::string& group, int64_t sequence,
                              std::span<const std::string> calls) {
  std::string text = concat("group ", group, ", call ", sequence);
  std::vector<bool> told(calls.size());
  const char* between = ": ";
  for (size_t first = 0; first < calls.size(); ++first) {
    if (told[first]) continue;
    std::vector<int> callers;
    for (size_t rank = first; rank < calls.size(); ++rank) {
      if (calls[rank] != calls[first]) continue;
      told[rank] = true;
      callers.push_back(static_cast<int>(rank));
    }
    text += concat(between, list_ranks(callers, [](int rank) { return rank; }), " called ",
                   calls[first]);
    between = ", ";
  }
  return text;
}

std::string list_ranks(std::span<const int> ranks, const std::function<int(int)>& world_rank) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks", world;
  bool differ = false;
  for (const int rank : ranks) {
    text += concat(' ', rank);
    world += concat(world.empty() ? "" : " ", world_rank(rank));
    differ = differ || world_rank(rank) != rank;
  }
  return differ ? concat(text, " (", world, " in the world)") : text;
}

}  // namespace sextant
