#include "trace/free_ranges.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {

size_t FreeRanges::first_from(int64_t begin) const {
  const auto it =
      std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                       [](const FreeRange& range, int64_t at) { return range.begin < at; });
  return static_cast<size_t>(it - ranges_.begin());
}

void FreeRanges::take(int64_t begin, int64_t end, std::vector<FreeRange>& taken) {
  const size_t first = first_from(begin + 1) - 1;  // wraps when there is none
  size_t last = first;
  for (int64_t at = begin; at < end; ++last) {
    SXT_CHECK(last < ranges_.size() && ranges_[last].begin <= at && at < ranges_[last].end,
              Internal, "address plan: [", begin, ", ", end, ") is not free at ", at);
    const int64_t stop = std::min(end, ranges_[last].end);
    taken.push_back({at, stop, ranges_[last].until});
    at = stop;
  }
  // Replaces [first, last) by what remains at its two ends.
  const FreeRange below{ranges_[first].begin, begin, ranges_[first].until};
  const FreeRange above{end, ranges_[last - 1].end, ranges_[last - 1].until};
  size_t kept = first;
  if (below.begin < below.end) ranges_[kept++] = below;
  if (above.begin < above.end) {
    if (kept == last) {
      ranges_.insert(ranges_.begin() + static_cast<ptrdiff_t>(kept), above);
      return;
    }
    ranges_[kept++] = above;
  }
  ranges_.erase(ranges_.begin() + static_cast<ptrdiff_t>(kept),
                ranges_.begin() + static_cast<ptrdiff_t>(last));
}

void FreeRanges::put(const FreeRange& range) {
  const size_t next = first_from(range.begin);
  const auto joins = [](const FreeRange& a, const FreeRange& b) {
    return a.end == b.begin && a.until == b.until;
  };
  const bool joins_below = next > 0 && joins(ranges_[next - 1], range);
  const bool joins_above = next < ranges_.size() && joins(range, ranges_[next]);
  const auto at = ranges_.begin() + static_cast<ptrdiff_t>(next);
  if (joins_below && joins_above) {
    ranges_[next - 1].end = ranges_[next].end;
    ranges_.erase(at);
  } else if (joins_below) {
    ranges_[next - 1].end = range.end;
  } else if (joins_above) {
    ranges_[next].begin = range.begin;
  } else {
    ranges_.insert(at, range);
  }
}

}  // namespace sextant
