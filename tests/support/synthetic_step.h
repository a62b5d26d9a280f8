#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trace/address_plan.h"

namespace sextant {

// What one rank of a training step keeps and for how long, made up for the tests of address plans.
struct SyntheticStep {
  std::string name;  // schedule and sizes
  std::vector<Lifetime> lifetimes;
};

// The same seed gives the same step. Seeds go through all schedules in turn; sizes, sharding,
// recomputation and context parallelism are drawn.
SyntheticStep synthetic_step(uint64_t seed);

// With this many layers per stage and micro-batches, for steps of a wanted length.
SyntheticStep synthetic_step(uint64_t seed, int layers, int micro_batches);

}  // namespace sextant
