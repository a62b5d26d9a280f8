#pragma once
#include <cstdint>

#include "base/category.h"

namespace sextant {

// Peak bytes of each category as the arena counts them, the peak of their sum (categories need not
// peak at the same time), and the bytes that the arena reserves.
struct MemoryEstimate {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0,
          communication = 0;
  int64_t peak = 0;
  int64_t reserved = 0;
  // Host memory of offloaded tensors, outside of the arena: peaks, and what is reserved for both.
  int64_t host_optimizer = 0, host_activations = 0, host = 0;
  bool operator==(const MemoryEstimate&) const = default;

  // Training state: what ZeRO shards.
  int64_t state() const { return weights + gradients + optimizer; }
  CategoryBytes categories() const {
    return {weights, gradients, optimizer, activations, workspace, communication};
  }
};

}  // namespace sextant
