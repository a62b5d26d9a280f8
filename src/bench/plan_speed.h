#pragma once
#include <cstdint>

#include "base/clock.h"
#include "base/storage.h"

namespace sextant {

struct PlanSpeed {
  int64_t evaluated = 0;     // layouts priced by closed forms, in one search
  double closed_s = 0;       // best time of the search without simulation
  double layouts_per_s = 0;  // on one core
  double search_s = 0;       // best time of the whole search, with simulated schedules
  int64_t simulated = 0;
};

// The search for llama-405b on 16,384 H100 with a batch of 2,048 sequences, `repeats` times.
PlanSpeed bench_plan(int repeats, Storage& storage, const Clock& clock);

}  // namespace sextant
