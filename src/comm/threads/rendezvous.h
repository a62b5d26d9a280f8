#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/threads/group.h"

namespace sextant::threads {

// The calls of all ranks in a collective in which all of them have arrived, as one rank sees it.
struct Rendezvous {
  int rank = 0;
  std::vector<const Call*> calls;        // by rank
  std::vector<const std::byte*> inputs;  // scratch: one pointer per rank
  std::vector<std::byte*> outputs;       // likewise

  int size() const { return static_cast<int>(calls.size()); }
  const Call& call(int rank) const { return *calls[static_cast<size_t>(rank)]; }
  // Pointers to this byte of every rank's input; valid until the next call.
  std::span<const std::byte* const> inputs_at(int64_t byte) {
    for (int peer = 0; peer < size(); ++peer)
      inputs[static_cast<size_t>(peer)] = call(peer).in + byte;
    return inputs;
  }
};

// The size of a part; unlike SplitSizes::part it does not add up the parts before it.
int64_t part_size(const SplitSizes& split_sizes, int64_t total, int ranks, int rank);

// Whether the calls of all ranks match: operation, type and counts.
bool agree(const Rendezvous& rendezvous);

// Computes this rank's share of all outputs. Each output element is written by one rank, which
// reads all inputs of that element before it overwrites them, so ranks need not synchronize here.
void do_part(Rendezvous& rendezvous);

}  // namespace sextant::threads
