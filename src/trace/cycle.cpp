#include "trace/cycle.h"

#include <algorithm>

namespace sextant {
namespace {

// Whether the tensors of the cycle `back` before the end are those of the cycle before it.
bool is_same(std::span<const Lifetime> recorded, const Cycle& cycle, int32_t back) {
  const size_t first = cycle.begin_of(back);
  for (size_t i = first; i < first + static_cast<size_t>(cycle.tensors); ++i) {
    const Lifetime& one = recorded[i - static_cast<size_t>(cycle.tensors)];
    const Lifetime& other = recorded[i];
    if (one.bytes != other.bytes || one.begin + cycle.events != other.begin) return false;
    const bool is_freed = one.end + cycle.events < cycle.end_event;
    if (is_freed ? one.end + cycle.events != other.end : other.end < cycle.end_event) return false;
  }
  return true;
}

}  // namespace

// A tensor that is alive after the last cycle is freed as the record says; that one may be a cycle
// that was left out.
Lifetime Cycle::lifetime(std::span<const Lifetime> recorded, int64_t index) const {
  if (left_out == 0) return recorded[static_cast<size_t>(index)];
  const int64_t more = int64_t{left_out} * tensors, from_end = end + more - index;
  const int32_t later = left_out * events;
  if (from_end <= 0) {
    Lifetime out = recorded[static_cast<size_t>(index - more)];
    out.begin += later;
    out.end += later;
    return out;
  }
  if (index < static_cast<int64_t>(begin_of(depth))) {
    Lifetime out = recorded[static_cast<size_t>(index)];
    if (out.end >= end_event) out.end += later;
    return out;
  }
  const auto place = static_cast<size_t>((index - static_cast<int64_t>(begin_of(depth))) % tensors);
  const auto back = static_cast<int32_t>((from_end + tensors - 1) / tensors);
  Lifetime out = recorded[begin_of(depth) + place];
  const int32_t shift = (left_out + depth - back) * events;
  out.begin += shift;
  out.end += shift;
  if (back > depth) return out;
  const Lifetime& last = recorded[begin_of(back) + place];
  if (last.end >= end_event) out.end = last.end + later;
  return out;
}

bool measure(std::span<const Lifetime> recorded, Cycle& cycle) {
  if (cycle.tensors == 0 || cycle.events != 2 * cycle.tensors) return false;
  const auto is_freed = [&](int32_t back) {
    return std::ranges::all_of(
        recorded.subspan(cycle.begin_of(back), static_cast<size_t>(cycle.tensors)),
        [&](const Lifetime& lifetime) { return lifetime.end < cycle.end_event; });
  };
  const auto is_recorded = [&](int32_t back) { return int64_t{back} * cycle.tensors <= cycle.end; };
  cycle.reach = 1;
  while (is_recorded(cycle.reach + 1) && is_same(recorded, cycle, cycle.reach)) ++cycle.reach;
  if (cycle.reach == 1) return false;
  cycle.depth = 1;
  while (cycle.depth <= cycle.reach && !is_freed(cycle.depth)) ++cycle.depth;
  if (cycle.depth > cycle.reach) return false;
  return std::ranges::none_of(
      recorded.first(cycle.begin_of(cycle.depth)), [&](const Lifetime& lifetime) {
        return lifetime.end < cycle.end_event && lifetime.end >= cycle.end_event - cycle.events;
      });
}

}  // namespace sextant
