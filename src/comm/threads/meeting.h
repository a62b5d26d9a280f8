#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/threads/group.h"

namespace sextant::threads {

// A collective in which all ranks have arrived, as one of them sees it.
struct Meeting {
  int rank = 0;
  std::vector<const Call*> calls;        // by rank
  std::vector<const std::byte*> inputs;  // room for one pointer of each rank
  std::vector<std::byte*> outputs;       // likewise

  int size() const { return static_cast<int>(calls.size()); }
  const Call& call(int rank) const { return *calls[static_cast<size_t>(rank)]; }
  // Every rank's input from this byte on; valid until the next call.
  std::span<const std::byte* const> inputs_at(int64_t byte) {
    for (int peer = 0; peer < size(); ++peer)
      inputs[static_cast<size_t>(peer)] = call(peer).in + byte;
    return inputs;
  }
};

// Of a part; unlike Cut::part without adding up those before it.
int64_t part_size(const Cut& cut, int64_t total, int ranks, int rank);

// The ranks called the same: operation, type, and all counts that have to fit.
bool agree(const Meeting& meeting);

// This rank's part of the work. Every element of every output is written by one rank, which reads
// all it depends on before it writes anything over it: no rank waits for another in here.
void do_part(Meeting& meeting);

}  // namespace sextant::threads
