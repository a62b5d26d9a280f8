#include "trace/address_sweep.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr int64_t kAddresses = int64_t{1} << 62;
constexpr int64_t kEventWork = 160;  // work of an event besides reading ranges

}  // namespace

AddressSweep::AddressSweep(std::span<const Lifetime> lifetimes)
    : lifetimes_(lifetimes),
      begins_(lifetimes.size()),
      ends_(lifetimes.size()),
      offsets_(lifetimes.size()),
      is_pinned_(lifetimes.size()),
      pieces_of_(lifetimes.size()) {
  order_events();
  int64_t bits = 0, alive = 0;
  for (const Lifetime& lifetime : lifetimes_) bits |= lifetime.bytes;
  if (bits > 0) alignment_ = bits & -bits;
  for (const int32_t event : events_) {
    alive += event >= 0 ? lifetimes_[static_cast<size_t>(event)].bytes
                        : -lifetimes_[static_cast<size_t>(~event)].bytes;
    peak_ = std::max(peak_, alive);
  }
}

// Ends come before begins of the same event. Empty tensors are skipped.
void AddressSweep::order_events() {
  std::vector<int32_t> by_begin;
  by_begin.reserve(lifetimes_.size());
  for (size_t i = 0; i < lifetimes_.size(); ++i)
    if (lifetimes_[i].bytes > 0) by_begin.push_back(static_cast<int32_t>(i));
  std::vector<int32_t> by_end = by_begin;
  std::stable_sort(by_end.begin(), by_end.end(), [&](int32_t a, int32_t b) {
    return lifetimes_[static_cast<size_t>(a)].end < lifetimes_[static_cast<size_t>(b)].end;
  });
  events_.reserve(2 * by_begin.size());
  auto ending = by_end.begin();
  const auto end_until = [&](int32_t event) {
    for (; ending != by_end.end(); ++ending) {
      const auto index = static_cast<size_t>(*ending);
      if (lifetimes_[index].end > event) return;
      ends_[index] = static_cast<int32_t>(events_.size());
      events_.push_back(~*ending);
    }
  };
  for (const int32_t i : by_begin) {
    end_until(lifetimes_[static_cast<size_t>(i)].begin);
    begins_[static_cast<size_t>(i)] = static_cast<int32_t>(events_.size());
    events_.push_back(i);
  }
  end_until(kForever);
}

void AddressSweep::pin(std::span<const std::pair<size_t, int64_t>> offsets) {
  is_pinned_.assign(lifetimes_.size(), false);
  pinned_high_water_ = 0;
  for (const auto& [lifetime, offset] : offsets) {
    is_pinned_[lifetime] = true;
    offsets_[lifetime] = offset;
    pinned_high_water_ = std::max(pinned_high_water_, offset + lifetimes_[lifetime].bytes);
  }
}

int64_t AddressSweep::place(const Approach& approach, int64_t ceiling, int64_t work_limit) {
  high_water_ = pinned_high_water_;
  ceiling = ceiling / alignment_ * alignment_;
  const auto last = std::max_element(approach.turns.begin(), approach.turns.end());
  const int32_t turns = last == approach.turns.end() ? 0 : *last + 1;
  for (int32_t turn = 0; turn < turns; ++turn)
    if (!place_turn(approach, turn, ceiling, work_limit)) return kUnfinished;
  return high_water_;
}

bool AddressSweep::place_turn(const Approach& approach, int32_t turn, int64_t ceiling,
                              int64_t work_limit) {
  FreeRanges ranges(kAddresses);
  pieces_.clear();
  if (turn > 0 || pinned_high_water_ > 0) free_around(approach, turn, ranges);
  for (const int32_t event : events_) {
    const auto i = static_cast<size_t>(event >= 0 ? event : ~event);
    const int32_t own = turn_of(approach, i);
    if (own > turn) continue;
    work_ += kEventWork;
    if (work_ > work_limit) return false;
    if (event < 0) {
      put(i, ranges);
    } else if (own == turn) {
      offsets_[i] = choose(ranges, i, approach.fits[i], ceiling);
      high_water_ = std::max(high_water_, offsets_[i] + lifetimes_[i].bytes);
      take(i, ranges);
    } else {
      scratch_.clear();
      ranges.take(offsets_[i], offsets_[i] + lifetimes_[i].bytes, scratch_);
    }
  }
  return true;
}

// Sets `ranges` to the ranges that are free before the first event, given the tensors of earlier
// turns, and stores for each of these tensors the ranges that become free when it ends. Goes
// backwards in time: an address is free until the tensor placed there next begins.
void AddressSweep::free_around(const Approach& approach, int32_t turn, FreeRanges& ranges) {
  for (size_t i = lifetimes_.size(); i-- > 0;) {
    if (turn_of(approach, i) >= turn || lifetimes_[i].bytes == 0) continue;
    work_ += kEventWork;
    take(i, ranges);
    ranges.put({offsets_[i], offsets_[i] + lifetimes_[i].bytes, begins_[i]});
  }
}

void AddressSweep::take(size_t lifetime, FreeRanges& ranges) {
  const size_t first = pieces_.size();
  ranges.take(offsets_[lifetime], offsets_[lifetime] + lifetimes_[lifetime].bytes, pieces_);
  pieces_of_[lifetime] = {first, pieces_.size() - first};
}

void AddressSweep::put(size_t lifetime, FreeRanges& ranges) {
  const auto [first, count] = pieces_of_[lifetime];
  for (size_t i = first; i < first + count; ++i) ranges.put(pieces_[i]);
}

// Some range always fits: the addresses above all tensors are always free.
int64_t AddressSweep::choose(const FreeRanges& ranges, size_t lifetime, Fit fit, int64_t ceiling) {
  const int64_t bytes = lifetimes_[lifetime].bytes;
  const int32_t until = ends_[lifetime];
  int64_t chosen = -1, tightest = std::numeric_limits<int64_t>::max();
  bool below_ceiling = false;
  FreeRanges::Reader reader(ranges);
  const auto read = [&] {
    ++work_;
    return reader.next();
  };
  const FreeRange* range = read();
  while (range != nullptr) {
    if (range->until < until) {
      range = read();
      continue;
    }
    const int64_t begin = range->begin;  // adjacent ranges, all free for long enough, count as one
    int64_t end = range->end;
    for (range = read(); range != nullptr && range->begin == end && range->until >= until;
         range = read())
      end = range->end;
    if (end - begin < bytes) continue;
    if (fit == Fit::Highest) {
      if (const int64_t top = std::min(end, ceiling); top - begin >= bytes) {
        chosen = top - bytes;
        below_ceiling = true;
      } else if (!below_ceiling && chosen < 0) {
        chosen = begin;
      }
    } else if (end - begin < tightest) {
      chosen = begin;
      tightest = end - begin;
      if (fit == Fit::Lowest || tightest == bytes) break;
    }
  }
  return chosen;
}

}  // namespace sextant
