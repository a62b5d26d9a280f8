#pragma once
#include <string>
#include <vector>

#include "trace/trace.h"

namespace sextant {

// Two operations of different lanes that access the same bytes, at least one of them writing, and
// are not ordered by waits.
struct Race {
  uint32_t earlier = 0, later = 0;  // indices in Trace::ops, in the order issued
  int64_t begin = 0, end = 0;       // bytes
};

// The races of a trace, at most `most`. Includes reuse of freed addresses: the first operation of
// the new tensor must be ordered after the last one of the old tensor.
std::vector<Race> find_races(const Trace& trace, size_t most = 10);

// Whether operation `earlier` is certainly done when `later` starts: by the order of a lane, by
// waits, or by both in turn.
bool is_ordered(const Trace& trace, uint32_t earlier, uint32_t later);

std::string to_string(const Trace& trace, const Race& race);

}  // namespace sextant
