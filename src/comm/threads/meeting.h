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

// Small enough to be shown as a copy (Slot::input): bytes up to `most`, the same on all ranks.
bool is_small(const Call& call, int ranks, int64_t most);
// All that ranks have to agree on in a small call, and what it was.
uint64_t identity_of(const Call& call);
Call call_of(uint64_t identity);
inline constexpr uint64_t kLarge = ~uint64_t{0};  // the identity of all other calls: see Desk::call
// Copies into `shown` what the others read of this rank.
void show_input(std::byte* shown, const Call& call, int ranks, int rank);
// This rank's whole output, from what all ranks show; the pointers may be moved.
void do_small(const Call& call, std::span<const std::byte*> shown, int rank);

}  // namespace sextant::threads
