#pragma once
#include <string>
#include <vector>

#include "trace/trace.h"

namespace sextant {

// Two operations of different lanes that touch the same bytes, at least one of them writing, while
// nothing orders them: neither their lanes nor waits.
struct Race {
  uint32_t earlier = 0, later = 0;  // places in Trace::ops, by when they were issued
  int64_t begin = 0, end = 0;       // bytes
};

// All races of a trace, at most `most`. Addresses that were given back and taken again count: the
// new tensor's first operation must be ordered behind the old one's last.
std::vector<Race> find_races(const Trace& trace, size_t most = 10);

std::string to_string(const Trace& trace, const Race& race);

}  // namespace sextant
