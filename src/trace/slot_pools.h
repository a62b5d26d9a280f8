#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "trace/cycle.h"

namespace sextant {

// Offsets for a cycle that repeats any number of times: memory is divided into pools of slots of
// equal size, and each tensor of the cycle takes a slot of its pool. A tensor may live longer than
// a cycle, so the slots that a cycle finds free are not those of the cycle before: which slot plays
// which part (a certain tensor alive from earlier cycles, or a certain place in the stack of free
// slots) changes with every cycle, always by the same permutation. Its powers say where a tensor is
// in any cycle, without simulating those before. Temporaries, which are freed in their own cycle,
// take free slots, or have offsets of their own behind the pools; whichever needs less memory.
class SlotPools {
 public:
  SlotPools() = default;
  SlotPools(std::span<const Lifetime> recorded, const Cycle& cycle, int64_t work = kSearchWork);

  int64_t bytes() const { return bytes_; }  // of all pools
  // Offset of tensor `place` of a cycle that is `cycle` cycles after the recorded ones; it may be
  // negative, as far back as that tensor is still alive after the recorded cycles.
  int64_t offset(size_t place, int64_t cycle) const;

 private:
  enum class Temporaries : uint8_t { InFreeSlots, Apart };
  static constexpr int32_t kPacked = -1;  // not in a pool

  struct Pool {
    int64_t slot_bytes = 0, offset = 0;
    int32_t slots = 0;
    std::vector<size_t> tensors;  // places
  };
  // Of a tensor: its part at the begin of its cycle, in an orbit of the permutation.
  struct Part {
    int32_t pool = 0;
    int32_t orbit = 0, length = 1;  // in orbits_
    int32_t position = 0;           // in the orbit
    int64_t offset = 0;             // if packed
  };

  SlotPools(std::span<const Lifetime> recorded, const Cycle& cycle, Temporaries temporaries,
            int64_t work);
  std::vector<size_t> fill_pools(std::span<const Lifetime> recorded, const Cycle& cycle,
                                 Temporaries temporaries);
  void pack(std::span<const Lifetime> recorded, const Cycle& cycle, std::vector<size_t> places,
            int64_t work);
  void follow_slots(const Cycle& cycle, int32_t pool);

  std::vector<Pool> pools_;
  std::vector<Part> parts_;                  // by place
  std::vector<int32_t> orbits_;              // slots, orbit by orbit
  std::vector<int32_t> begins_, durations_;  // by place, in events; begins from the cycle's begin
  int64_t bytes_ = 0;
};

// Offsets of the recorded tensors of a program whose left out cycles follow `pools`.
AddressPlan plan_addresses(std::span<const Lifetime> recorded, const Cycle& cycle,
                           const SlotPools& pools, int64_t work = kSearchWork);

}  // namespace sextant
