#pragma once
// Angles of rope's table, for all devices.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/rope.h"

namespace sextant {

// The pair, as a real number, whose wave turns `turns` times in the original context.
[[gnu::always_inline]] static inline double pair_of_turns(const RopeFrequencies& f, double turns,
                                                          int64_t half) {
  const double wave = static_cast<double>(f.original_seq) / (turns * 2 * std::numbers::pi);
  return static_cast<double>(half) * std::log(wave) / std::log(f.theta);
}

// YaRN keeps pairs up to that of beta_fast and slows those from that of beta_slow on.
[[gnu::always_inline]] static inline double yarn_frequency(const RopeFrequencies& f, double plain,
                                                           int64_t i, int64_t half) {
  const double first = std::max(std::floor(pair_of_turns(f, f.beta_fast, half)), 0.0);
  const double last =
      std::min(std::ceil(pair_of_turns(f, f.beta_slow, half)), static_cast<double>(2 * half - 1));
  const double width = first == last ? 1e-3 : last - first;
  const double slow = std::clamp((static_cast<double>(i) - first) / width, 0.0, 1.0);
  return slow * plain / f.factor + (1 - slow) * plain;
}

// Angle per position of pair `i`. Llama-3 scaling slows long waves by `factor`, keeps short ones,
// and passes from one to the other in a straight line between the two limits.
[[gnu::always_inline]] static inline double frequency_of(const RopeFrequencies& f, int64_t i,
                                                         int64_t half) {
  const double plain = std::pow(f.theta, -static_cast<double>(i) / static_cast<double>(half));
  if (f.factor == 1) return plain;
  if (f.slowing == RopeSlowing::Linear) return plain / f.factor;
  if (f.slowing == RopeSlowing::Yarn) return yarn_frequency(f, plain, i, half);
  const double turns = static_cast<double>(f.original_seq) * plain / (2 * std::numbers::pi);
  if (turns > f.high_freq_factor) return plain;
  if (turns < f.low_freq_factor) return plain / f.factor;
  const double keep = (turns - f.low_freq_factor) / (f.high_freq_factor - f.low_freq_factor);
  return (1 - keep) * plain / f.factor + keep * plain;
}

}  // namespace sextant
