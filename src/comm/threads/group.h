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

// Bytes of a call that are copied rather than read where they lie: where a thread that waits has
// its own core, and where it has to give way to others, which costs more than copying.
inline constexpr int64_t kSmallSpinning = 1024, kSmall = 4096;
inline constexpr int kLanes = 2;   // a lane of calls for each When
inline constexpr int kSlots = 64;  // calls of a lane that a rank still shows

// A call as a rank shows it to its group.
struct Slot {
  alignas(64) std::atomic<int64_t> sequence{0};  // set last: what follows may be read then
  std::atomic<uint64_t> identity{0};             // see identity_of
  // What others read of a small call, so that its rank may go on meanwhile: if it is short, in the
  // line that they look at anyway.
  std::array<std::byte, 48> short_input;
  alignas(64) std::array<std::byte, kSmall> long_input;
  // On rank 0's slot of a large call: which pieces of its work are taken, and how many are done.
  alignas(64) std::atomic<uint64_t> taken{0};
  std::atomic<int> done{0};

  std::byte* input(int64_t bytes) {
    return bytes <= static_cast<int64_t>(short_input.size()) ? short_input.data()
                                                             : long_input.data();
  }
};

// What a rank shows of one lane. Its own thread makes the calls of one, its progress thread those
// of the other, and both may be in a collective of the same group; in a lane the numbers of calls
// rise. Call number s is in slot s mod kSlots. See slots.cpp for when a slot may be used again.
struct CallSlots {
  // The calls of this lane up to here are over: this rank looks at nobody's slot or memory for
  // them any more.
  alignas(64) std::atomic<int64_t> seen{0};
  // The call in which it uses the memory of the others; 0: none.
  alignas(64) std::atomic<int64_t> working{0};
  Call call;                  // the one that is not small, in full
  std::atomic<int> core{-1};  // where its rank ran when it showed that
  std::array<Slot, kSlots> slots;

  Slot& slot(int64_t sequence) { return slots[static_cast<size_t>(sequence) % kSlots]; }
};

// Names a group over all ranks.
struct GroupKey {
  int64_t parent = 0;  // its `id`; 0: none, the world
  int64_t split = 0;   // number of the call in the parent
  int first = 0;       // its first rank, in the parent
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

// What the ranks of a group share.
struct Group {
  Group(const GroupKey& key, int64_t id, std::string name, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(world_ranks.size()); }
  CallSlots& call_slots_of(int rank, int lane) {
    return call_slots[static_cast<size_t>(rank * kLanes + lane)];
  }
  // The last broadcast of `root`, in this lane and slot, that `peer` has read.
  std::atomic<int64_t>& read(int root, int lane, int64_t sequence, int peer) {
    return reads[static_cast<size_t>((root * kLanes + lane) * size() + peer)]
        .last[static_cast<size_t>(sequence) % kSlots];
  }
  Mailbox& mailbox(int from, int to) { return mailboxes[static_cast<size_t>(from * size() + to)]; }

  const GroupKey key;
  const int64_t id;  // in its world, from 1
  const std::string name;
  const std::vector<int> world_ranks;
  int members_left;  // that have not left; under the world's mutex
  Bell bell;
  std::vector<CallSlots> call_slots;  // [size, lanes]
  std::vector<Mailbox> mailboxes;     // [from, to]

 private:
  // A reader's words lie together: it writes several of them before the root looks again.
  struct Reads {
    alignas(64) std::array<std::atomic<int64_t>, kSlots> last{};
  };
  std::vector<Reads> reads;  // [size, lanes, size]
};

}  // namespace sextant::threads
