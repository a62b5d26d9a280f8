#pragma once
#include <span>
#include <string_view>

namespace sextant {

// The numbers of the cost model that no data sheet gives. They were fitted to the table of
// published runs (docs/planner.md); each has a physical meaning and a range it may not leave.
struct Constants {
  // Compute
  double gemm = 0.916;
  double gemm_air = 0.629;
  double gemm_memory = 1.47;
  double fp8 = 1.0;
  double fp8_row = 0.497;
  double fp4 = 0.717;
  double grouped = 0.761;
  double apart = 0.276;
  double power = 0.111;
  double flash1 = 0.201;
  double flash2 = 0.335;
  double flash_new = 0.458;
  double score_passes = 4.83;
  double memory_rate = 0.95;
  double eager_norm = 99.6;
  double launch = 1.23e-05;
  // Communication
  double link = 0.878;
  double nic = 0.65;
  double latency = 4.0;
  double overlap = 0.422;
  double to_all = 0.804;
  double to_all_far = 0.825;
  // Memory
  double fragments = 0.03;
  double reserve = 1.5;
};

struct ConstantInfo {
  std::string_view name;
  double Constants::*value;
  double least, most;
  std::string_view unit;
  std::string_view meaning;
  bool memory = false;  // decides what fits, not how long it takes
};
std::span<const ConstantInfo> constant_table();
inline constexpr int kMostConstants = 25;

}  // namespace sextant
