#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "trace/address_plan.h"
#include "trace/free_ranges.h"

namespace sextant {

// How to choose among the free ranges that are large enough and free for long enough.
enum class Fit : uint8_t {
  Lowest,    // the bottom of the lowest
  Tightest,  // the bottom of the smallest
  Highest,   // the top of the highest one below the ceiling: apart from the other tensors
};

// How to place tensors, one entry per lifetime. All tensors of turn 0 are placed first, in the
// order in which they begin; then those of turn 1 around them, and so on. Pinned tensors have a
// given offset; their entries are ignored.
struct Approach {
  std::vector<int32_t> turns;
  std::vector<Fit> fits;
};

// Places tensors by going through the events of a program once per turn.
class AddressSweep {
 public:
  static constexpr int64_t kUnfinished = std::numeric_limits<int64_t>::max();

  // The lifetimes must outlive this.
  explicit AddressSweep(std::span<const Lifetime> lifetimes);

  int64_t peak() const { return peak_; }
  int64_t aligned(int64_t offset) const { return offset / alignment_ * alignment_; }
  int64_t pinned_high_water() const { return pinned_high_water_; }
  // Number of begins and ends during a lifetime; does not depend on how the caller numbers events.
  int32_t duration(size_t lifetime) const { return ends_[lifetime] - begins_[lifetime]; }
  const std::vector<int64_t>& offsets() const { return offsets_; }  // of the last place()
  int64_t work() const { return work_; }  // of all calls so far, in units of 1 to 2 ns

  // Gives tensors an offset from now on. They must not overlap each other.
  void pin(std::span<const std::pair<size_t, int64_t>> offsets);

  // The high-water mark of the offsets found, or kUnfinished if work() exceeds `work_limit`.
  int64_t place(const Approach& approach, int64_t ceiling, int64_t work_limit);

 private:
  struct Pieces {
    size_t first = 0, count = 0;
  };

  void order_events();
  // When the offset of a lifetime is found.
  int32_t turn_of(const Approach& approach, size_t lifetime) const {
    return is_pinned_[lifetime] ? -1 : approach.turns[lifetime];
  }
  bool place_turn(const Approach& approach, int32_t turn, int64_t ceiling, int64_t work_limit);
  void free_around(const Approach& approach, int32_t turn, FreeRanges& ranges);
  void take(size_t lifetime, FreeRanges& ranges);
  void put(size_t lifetime, FreeRanges& ranges);
  int64_t choose(const FreeRanges& ranges, size_t lifetime, Fit fit, int64_t ceiling);

  std::span<const Lifetime> lifetimes_;
  std::vector<int32_t> events_;         // in order: the lifetime that begins, ~lifetime for its end
  std::vector<int32_t> begins_, ends_;  // of each lifetime, positions in events_
  std::vector<int64_t> offsets_;
  std::vector<bool> is_pinned_;
  std::vector<FreeRange> pieces_;  // ranges that lifetimes took, or free when they end
  std::vector<Pieces> pieces_of_;  // of each lifetime
  std::vector<FreeRange> scratch_;
  int64_t alignment_ = 1;  // largest power of two that divides all sizes, so all offsets
  int64_t peak_ = 0, pinned_high_water_ = 0, high_water_ = 0, work_ = 0;
};

}  // namespace sextant
