#include "comm/mismatch.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace sextant {

std::string place_of(const std::string& group, const Call& call) {
  return concat("group ", group, is_message(call.operation) ? ", message " : ", call ",
                call.sequence);
}

std::string describe_mismatch(const std::string& group, const Call& call,
                              std::span<const std::string> calls) {
  std::string text = place_of(group, call);
  for (size_t first = 0; first < calls.size(); ++first) {
    const auto begin = calls.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::find(calls.begin(), begin, calls[first]) != begin) continue;  // listed already
    text += concat(first == 0 ? ": " : "; ", "rank ", first);
    for (size_t rank = first + 1; rank < calls.size(); ++rank)
      if (calls[rank] == calls[first]) text += concat(", ", rank);
    text += concat(" made ", calls[first]);
  }
  return text;
}

std::string describe_mismatch(const std::string& group, const Call& call, int sender,
                              const std::string& send, int receiver, const std::string& receive) {
  return concat(place_of(group, call), ": rank ", sender, " made ", send, "; rank ", receiver,
                " made ", receive);
}

uint64_t agreement_key(const Call& call) {
  if (is_message(call.operation)) return stable_hash(concat(call.count, ' ', name_of(call.dtype)));
  if (call.operation == Operation::AllToAll)
    return stable_hash(concat(name_of(call.operation), ' ', name_of(call.dtype)));
  return stable_hash(to_string(call));
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
