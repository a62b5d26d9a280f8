#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sextant {

inline constexpr int32_t kForever = std::numeric_limits<int32_t>::max();

// Free addresses [begin, end), and the event `until` at which an already placed tensor needs them.
struct FreeRange {
  int64_t begin = 0, end = 0;
  int32_t until = kForever;
};

// The free ranges at one event of a program, in address order. Adjacent ranges with the same
// `until` are merged. A flat array, as a few hundred ranges are read far more often than changed.
class FreeRanges {
 public:
  explicit FreeRanges(int64_t bytes) : ranges_{{0, bytes, kForever}} {}

  std::span<const FreeRange> all() const { return ranges_; }

  // Takes [begin, end), all of which must be free, and appends the ranges it consisted of to
  // `taken`.
  void take(int64_t begin, int64_t end, std::vector<FreeRange>& taken);

  // Frees `range`, no part of which may be free.
  void put(const FreeRange& range);

 private:
  size_t first_from(int64_t begin) const;  // index of the first range that starts there or later

  std::vector<FreeRange> ranges_;
};

}  // namespace sextant
