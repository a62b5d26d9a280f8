#pragma once
#include <cstdint>
#include <vector>

#include "base/range.h"

namespace sextant {

// The tensor-parallel shard of a tensor: ranges of its rows (dim 0), in the order in which they are
// stored, and a range of columns of each row. A vector has one column. Flat elements count row by
// row.
struct Fragment {
  std::vector<Range> rows;
  Range columns;
  int64_t whole_columns = 1;

  int64_t row_count() const {
    int64_t count = 0;
    for (const Range& range : rows) count += range.size();
    return count;
  }
  int64_t elements() const { return row_count() * columns.size(); }

  // f(elements of the shard, index in the whole of the first one) for each run of elements of
  // `range` that is contiguous in the whole tensor, too.
  template <class F>
  void for_each_run(const Range& range, F&& f) const {
    int64_t first_row = 0;  // in the shard
    const int64_t width = columns.size();
    const bool is_full = width == whole_columns;
    for (const Range& block : rows) {
      const Range flat = overlap({first_row * width, (first_row + block.size()) * width}, range);
      for (int64_t at = flat.begin; at < flat.end;) {
        const int64_t row = at / width, column = at % width;
        const int64_t end =
            is_full ? flat.end : (flat.end < (row + 1) * width ? flat.end : (row + 1) * width);
        f(Range{at, end}, (block.begin + row - first_row) * whole_columns + columns.begin + column);
        at = end;
      }
      first_row += block.size();
    }
  }
  friend bool operator==(const Fragment&, const Fragment&) = default;
};

inline Fragment whole_fragment(int64_t rows, int64_t columns) {
  return {{{0, rows}}, {0, columns}, columns};
}

}  // namespace sextant
