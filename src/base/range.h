#pragma once
#include <cstdint>

namespace sextant {

// A range of elements or rows: begin ... end - 1.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Part `index` of `total` split into `parts` as evenly as possible: sizes differ by at most one,
// larger ones first. A part may be empty.
constexpr Range even_part(int64_t total, int parts, int index) {
  const int64_t least = total / parts, more = total % parts;
  const int64_t begin = index * least + (index < more ? index : more);
  return {begin, begin + least + (index < more ? 1 : 0)};
}

constexpr Range overlap(const Range& a, const Range& b) {
  const int64_t begin = a.begin > b.begin ? a.begin : b.begin;
  const int64_t end = a.end < b.end ? a.end : b.end;
  return {begin, end > begin ? end : begin};
}

}  // namespace sextant
