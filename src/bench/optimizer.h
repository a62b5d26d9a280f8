#pragma once
#include <cstdint>

#include "base/clock.h"
#include "tensor/stream.h"

namespace sextant {

// AdamW against its memory bound: a loop that reads and writes the same arrays (four reads, three
// writes of f32) with almost no arithmetic. Alternating, the best of `repeats` each.
struct OptimizerTimes {
  int64_t elements = 0;
  double adamw_seconds = 0;
  double floor_seconds = 0;

  double ratio() const { return adamw_seconds / floor_seconds; }
  double adamw_bytes_per_second() const { return bytes() / adamw_seconds; }
  double floor_bytes_per_second() const { return bytes() / floor_seconds; }

 private:
  double bytes() const { return 28.0 * static_cast<double>(elements); }
};

// The stream's arena needs memory for four f32 arrays of `elements`.
OptimizerTimes bench_adamw(Stream& stream, const Clock& clock, int64_t elements, int repeats);

}  // namespace sextant
