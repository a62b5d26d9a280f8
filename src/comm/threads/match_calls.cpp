#include <algorithm>

#include "comm/threads/rendezvous.h"

namespace sextant::threads {
namespace {

bool same_split(const SplitSizes& a, const SplitSizes& b) {
  return std::ranges::equal(a.sizes(), b.sizes());
}

bool same_call(const Call& a, const Call& b) {
  if (a.operation != b.operation || a.dtype != b.dtype) return false;
  if ((a.stream == nullptr) != (b.stream == nullptr)) return false;  // one on a GPU, one not
  if (a.operation == Operation::AllToAll) return true;  // counts are compared pair by pair
  return a.reduce_op == b.reduce_op && a.into == b.into && a.root == b.root && a.count == b.count &&
         same_split(a.split_sizes, b.split_sizes);
}

// Fast path without divisions: all ranks send and receive the same number, split evenly.
bool is_uniform(const Rendezvous& rendezvous) {
  const int64_t count = rendezvous.call(0).count;
  for (int rank = 0; rank < rendezvous.size(); ++rank) {
    const Call& call = rendezvous.call(rank);
    if (call.count != count || call.received != count || !call.split_sizes.is_even() ||
        !call.receive_split_sizes.is_even())
      return false;
  }
  return count % rendezvous.size() == 0;
}

// Every rank sends to every other rank as many elements as that rank expects.
bool pairs_fit(const Rendezvous& rendezvous) {
  if (is_uniform(rendezvous)) return true;
  const int ranks = rendezvous.size();
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      const Call &sender = rendezvous.call(from), &receiver = rendezvous.call(to);
      if (part_size(sender.split_sizes, sender.count, ranks, to) !=
          part_size(receiver.receive_split_sizes, receiver.received, ranks, from))
        return false;
    }
  return true;
}

}  // namespace

int64_t part_size(const SplitSizes& split_sizes, int64_t total, int ranks, int rank) {
  return split_sizes.is_even() ? even_part(total, ranks, rank).size()
                               : split_sizes.sizes()[static_cast<size_t>(rank)];
}

bool agree(const Rendezvous& rendezvous) {
  const Call& first = rendezvous.call(0);
  for (int rank = 1; rank < rendezvous.size(); ++rank)
    if (!same_call(first, rendezvous.call(rank))) return false;
  return first.operation != Operation::AllToAll || pairs_fit(rendezvous);
}

}  // namespace sextant::threads
