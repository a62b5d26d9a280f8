#include "trace/free_ranges.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {

FreeRanges::Place FreeRanges::last_until(int64_t begin) const {
  const auto block = std::upper_bound(
      blocks_.begin(), blocks_.end(), begin,
      [](int64_t at, const std::vector<FreeRange>& ranges) { return at < ranges.front().begin; });
  if (block == blocks_.begin()) return {0, SIZE_MAX};
  const std::vector<FreeRange>& ranges = *std::prev(block);
  const auto range =
      std::upper_bound(ranges.begin(), ranges.end(), begin,
                       [](int64_t at, const FreeRange& one) { return at < one.begin; });
  return {static_cast<size_t>(block - blocks_.begin()) - 1,
          static_cast<size_t>(range - ranges.begin()) - 1};
}

void FreeRanges::insert(Place place, const FreeRange& range) {
  if (blocks_.empty()) blocks_.emplace_back();
  std::vector<FreeRange>& ranges = blocks_[place.block];
  ranges.insert(ranges.begin() + static_cast<ptrdiff_t>(place.index), range);
  if (ranges.size() <= kMostOfBlock) return;
  const auto middle = ranges.begin() + static_cast<ptrdiff_t>(ranges.size() / 2);
  std::vector<FreeRange> upper(middle, ranges.end());
  ranges.erase(middle, ranges.end());
  blocks_.insert(blocks_.begin() + static_cast<ptrdiff_t>(place.block) + 1, std::move(upper));
}

void FreeRanges::erase(Place place) {
  std::vector<FreeRange>& ranges = blocks_[place.block];
  ranges.erase(ranges.begin() + static_cast<ptrdiff_t>(place.index));
  if (ranges.empty()) blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(place.block));
}

void FreeRanges::take(int64_t begin, int64_t end, std::vector<FreeRange>& taken) {
  Place place = last_until(begin);
  for (int64_t at = begin; at < end;) {
    const bool is_range = place.block < blocks_.size() && place.index != SIZE_MAX;
    SXT_CHECK(is_range && blocks_[place.block][place.index].begin <= at &&
                  at < blocks_[place.block][place.index].end,
              Internal, "address plan: [", begin, ", ", end, ") is not free at ", at);
    FreeRange& range = blocks_[place.block][place.index];
    const FreeRange above{std::min(end, range.end), range.end, range.until};
    taken.push_back({at, above.begin, range.until});
    const bool has_above = above.begin < above.end;
    if (range.begin < at) {
      range.end = at;
      ++place.index;
      if (has_above) insert(place, above);
    } else if (has_above) {
      range = above;
    } else {
      erase(place);
    }
    at = above.begin;
    if (place.block < blocks_.size() && place.index == blocks_[place.block].size())
      place = {place.block + 1, 0};
  }
}

void FreeRanges::put(const FreeRange& range) {
  const auto joins = [](const FreeRange* a, const FreeRange* b) {
    return a != nullptr && b != nullptr && a->end == b->begin && a->until == b->until;
  };
  const Place place = last_until(range.begin);
  const bool is_first = place.index == SIZE_MAX;
  Place next{place.block, is_first ? 0 : place.index + 1};
  FreeRange* below = is_first ? nullptr : &blocks_[place.block][place.index];
  if (next.block < blocks_.size() && next.index == blocks_[next.block].size())
    next = {next.block + 1, 0};
  FreeRange* above = next.block < blocks_.size() ? &blocks_[next.block][next.index] : nullptr;
  const bool joins_below = joins(below, &range), joins_above = joins(&range, above);
  if (joins_below && joins_above) {
    below->end = above->end;
    erase(next);
  } else if (joins_below) {
    below->end = range.end;
  } else if (joins_above) {
    above->begin = range.begin;
  } else {
    insert({place.block, is_first ? 0 : place.index + 1}, range);
  }
}

}  // namespace sextant
