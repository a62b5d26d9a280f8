#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sextant {

inline constexpr int32_t kForever = std::numeric_limits<int32_t>::max();

// Addresses [begin, end) that nobody uses now, and the event at which a tensor that already has its
// place takes them.
struct FreeRange {
  int64_t begin = 0, end = 0;
  int32_t until = kForever;
};

// What is free at one moment of a program, in address order. Neighbours of the same `until` are one
// range. A flat array: a few hundred ranges are read far more often than they change.
class FreeRanges {
 public:
  explicit FreeRanges(int64_t bytes) : ranges_{{0, bytes, kForever}} {}

  std::span<const FreeRange> all() const { return ranges_; }

  // Takes [begin, end), all of which must be free, and appends what it was to `taken`.
  void take(int64_t begin, int64_t end, std::vector<FreeRange>& taken);

  // `range`, none of which may be free, is so from now on.
  void put(const FreeRange& range);

 private:
  size_t first_from(int64_t begin) const;  // index of the first range that starts there or later

  std::vector<FreeRange> ranges_;
};

}  // namespace sextant
