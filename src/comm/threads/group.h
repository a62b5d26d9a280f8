#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/threads/event_count.h"
#include "comm/threads/mailbox.h"

namespace sextant::threads {

// Calls of at most this many bytes copy their input into the slot.
inline constexpr int64_t kSmallSpinning = 1024;  // every rank has a core
inline constexpr int64_t kSmall = 4096;          // a second synchronization costs more than copying
inline constexpr int kLanes = 2;                 // one lane of calls per When
inline constexpr int kSlots = 64;                // per lane

// A call that a rank has posted to its group.
struct Slot {
  alignas(64) std::atomic<int64_t> sequence{0};  // stored last: releases the fields below
  std::atomic<uint64_t> identity{0};             // see identity_of
  // Copy of the input of a small call, so that its rank can return before the others have read it.
  // A short one shares the cache line of `sequence`.
  std::array<std::byte, 48> short_input;
  alignas(64) std::array<std::byte, kSmall> long_input;
  // Large call, in rank 0's slot: bit set of the shares that are taken, and number of those done.
  alignas(64) std::atomic<uint64_t> taken{0};
  std::atomic<int> done{0};

  std::byte* input(int64_t bytes) {
    return bytes <= static_cast<int64_t>(short_input.size()) ? short_input.data()
                                                             : long_input.data();
  }
};

// The posted calls of one rank in one lane. The rank's thread uses one lane and its progress thread
// the other, as both can be in a collective of the same group. Sequence numbers ascend within a
// lane. Call s is in slot s mod kSlots; slots.cpp says when a slot can be reused.
struct CallSlots {
  // This rank has finished the calls of this lane up to here: it reads no slot or memory of other
  // ranks for them any more.
  alignas(64) std::atomic<int64_t> seen{0};
  // The call in which this rank is using the memory of other ranks; 0: none.
  alignas(64) std::atomic<int64_t> working{0};
  Call call;                  // the posted large call, in full
  std::atomic<int> core{-1};  // on which the rank posted it
  std::array<Slot, kSlots> slots;

  Slot& slot(int64_t sequence) { return slots[static_cast<size_t>(sequence) % kSlots]; }
};

// Where the collectives of one lane run on a GPU that all ranks share: one after another, whichever
// rank issues them.
struct GpuLane {
  explicit GpuLane(int index);
  gpu::Queue queue;
  std::array<std::unique_ptr<gpu::Event>, kSlots> done;  // end of the call in each slot
};

// Identifies a group, equally on all of its ranks.
struct GroupKey {
  int64_t parent = 0;  // Group::id of the parent; 0: none, this is the world
  int64_t split = 0;   // number of the subgroup call in the parent
  int first = 0;       // first member, as a rank of the parent
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

// State of a group that its ranks share.
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
  GpuLane& gpu_lane(int lane, int index);  // made when it is first used
  Mailbox& mailbox(int from, int to) { return mailboxes[static_cast<size_t>(from * size() + to)]; }

  const GroupKey key;
  const int64_t id;  // in its world, from 1
  const std::string name;
  const std::vector<int> world_ranks;
  int members_left;  // members still in the group; guarded by the world's mutex
  EventCount event_count;
  std::vector<CallSlots> call_slots;  // [size, lanes]
  std::vector<Mailbox> mailboxes;     // [from, to]

 private:
  // One reader's entries are adjacent: it writes several of them before the root reads any.
  struct Reads {
    alignas(64) std::array<std::atomic<int64_t>, kSlots> last{};
  };
  std::vector<Reads> reads;  // [size, lanes, size]
  std::mutex gpu_mutex;      // guards the pointers
  std::array<std::unique_ptr<GpuLane>, kLanes> gpu_lanes;
};

}  // namespace sextant::threads
