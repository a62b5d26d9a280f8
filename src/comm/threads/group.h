#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/threads/bell.h"
#include "comm/threads/mailbox.h"

namespace sextant::threads {

// Where a rank stands in a collective.
//   Away     not in it, or gone because the world is over
//   Arrived  its call may be read; its memory may be used once all have arrived
//   Working  uses the memory of the others
//   Done     uses it no longer; it goes when all are done
enum class Phase : uint64_t { Away, Arrived, Working, Done };

// Bytes of a call that are copied rather than read where they lie.
inline constexpr int64_t kSmall = 4096;

// What a rank shows to the others of its group. It has two for the calls of its own thread and two
// for those of its courier, since both may be in a collective of the same group. They take turns:
// while others still look at a small call, the next one is shown beside it.
struct alignas(64) Cell {
  static constexpr uint64_t pack(int64_t sequence, Phase phase) {
    return static_cast<uint64_t>(sequence) << 2 | static_cast<uint64_t>(phase);
  }
  static int64_t sequence_of(uint64_t state) { return static_cast<int64_t>(state >> 2); }
  static Phase phase_of(uint64_t state) { return static_cast<Phase>(state & 3); }

  std::atomic<uint64_t> state{0};
  Call call;  // written before it arrives
  // The input of a small call, so that its rank may go on while others still read it.
  std::array<std::byte, kSmall> input;
};

inline constexpr int kLanes = 2, kTurns = 2;    // a lane for each When
inline constexpr int kSeats = kLanes * kTurns;  // cells of a rank

// Names a group over all ranks.
struct GroupKey {
  int64_t parent = 0;  // its `id`; 0: none, the world
  int64_t split = 0;   // number of the split in the parent
  int color = 0;
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

// What the ranks of a group share.
struct Group {
  Group(const GroupKey& key, int64_t id, std::string name, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(world_ranks.size()); }
  Cell& cell(int rank, int seat) { return cells[static_cast<size_t>(rank * kSeats + seat)]; }
  Mailbox& mailbox(int from, int to) { return mailboxes[static_cast<size_t>(from * size() + to)]; }

  const GroupKey key;
  const int64_t id;  // in its world, from 1
  const std::string name;
  const std::vector<int> world_ranks;
  int members_left;  // that have not left; under the world's mutex
  Bell bell;
  std::vector<Cell> cells;         // [size, seats]
  std::vector<Mailbox> mailboxes;  // [from, to]
};

}  // namespace sextant::threads
