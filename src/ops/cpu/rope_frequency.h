#pragma once
// Angles of rope's table, for all devices.
#include <cmath>
#include <numbers>

#include "ops/rope.h"

namespace sextant {

// Angle per position of pair `i`. Llama-3 scaling slows long waves by `factor`, keeps short ones,
// and passes from one to the other in a straight line between the two limits.
[[gnu::always_inline]] static inline double frequency_of(const RopeFrequencies& f, int64_t i,
                                                         int64_t half) {
  const double plain = std::pow(f.theta, -static_cast<double>(i) / static_cast<double>(half));
  if (f.factor == 1) return plain;
  const double turns = static_cast<double>(f.original_seq) * plain / (2 * std::numbers::pi);
  if (turns > f.high_freq_factor) return plain;
  if (turns < f.low_freq_factor) return plain / f.factor;
  const double keep = (turns - f.low_freq_factor) / (f.high_freq_factor - f.low_freq_factor);
  return (1 - keep) * plain / f.factor + keep * plain;
}

}  // namespace sextant
