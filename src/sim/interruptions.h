#pragma once
#include <span>
#include <string_view>

namespace sextant {

// Unexpected interruptions of a run, by the component at fault.
struct Interruption {
  std::string_view component, category;
  int count = 0;
};

// The published table: Llama 3 405B, 54 days on 16,384 H100, 419 interruptions.
std::span<const Interruption> interruption_table();
inline constexpr double kTableDays = 54;
inline constexpr double kTableGpus = 16384;

// Interruptions of that table, all components together.
int table_interruptions();

// Mean seconds between two interruptions of a run on `gpus`: each component fails as often per GPU
// as in the table, times `factor`. Infinite for a factor of 0.
double mean_time_between(double gpus, double factor);

}  // namespace sextant
