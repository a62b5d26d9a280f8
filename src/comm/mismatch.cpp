#include "comm/mismatch.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {

std::string describe_mismatch(const std::string& group, int64_t sequence,
                              std::span<const std::string> calls) {
  std::string text = concat(group, ", call #", sequence);
  for (size_t first = 0; first < calls.size(); ++first) {
    const auto begin = calls.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::find(calls.begin(), begin, calls[first]) != begin) continue;  // told of
    text += concat(first == 0 ? ": " : "; ", "rank ", first);
    for (size_t rank = first + 1; rank < calls.size(); ++rank)
      if (calls[rank] == calls[first]) text += concat(", ", rank);
    text += concat(" made ", calls[first]);
  }
  return text;
}

std::string list_ranks(std::span<const int> ranks, const std::function<int(int)>& world_rank) {
  std::string text;
  for (const int rank : ranks) {
    text += concat(text.empty() ? "" : ", ", rank);
    if (world_rank(rank) != rank) text += concat(" (world ", world_rank(rank), ")");
  }
  return text;
}

}  // namespace sextant
