#pragma once
#include <cstdint>

#include "base/category.h"

namespace sextant {

// The most bytes of each category, counted as the arena counts them, the most of all together at
// one moment (categories need not be largest at the same time), and what the arena takes for that.
struct MemoryEstimate {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0,
          communication = 0;
  int64_t peak = 0;
  int64_t reserved = 0;
  bool operator==(const MemoryEstimate&) const = default;

  // Training state: what ZeRO divides.
  int64_t state() const { return weights + gradients + optimizer; }
  CategoryBytes categories() const {
    return {weights, gradients, optimizer, activations, workspace, communication};
  }
};

}  // namespace sextant
