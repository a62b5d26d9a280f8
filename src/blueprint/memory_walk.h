#pragma once
#include <algorithm>

#include "blueprint/memory.h"

namespace sextant {

// Bytes alive in each category, and the most there ever were. A category is a field of
// MemoryEstimate.
class MemoryWalk {
 public:
  using Category = int64_t MemoryEstimate::*;

  void take(int64_t bytes, Category category = &MemoryEstimate::activations) {
    now_.*category += bytes;
    now_.peak += bytes;
    most_.*category = std::max(most_.*category, now_.*category);
    most_.peak = std::max(most_.peak, now_.peak);
  }
  void free(int64_t bytes, Category category = &MemoryEstimate::activations) {
    now_.*category -= bytes;
    now_.peak -= bytes;
  }
  // The same bytes under another category: the sum does not move.
  void move(int64_t bytes, Category from, Category to) {
    free(bytes, from);
    take(bytes, to);
  }

  const MemoryEstimate& now() const { return now_; }
  const MemoryEstimate& most() const { return most_; }

 private:
  MemoryEstimate now_, most_;
};

}  // namespace sextant
