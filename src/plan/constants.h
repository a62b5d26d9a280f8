#pragma once
#include <span>
#include <string_view>

namespace sextant {

// The numbers of the cost model that no data sheet gives. They were fitted to the table of
// published runs (docs/planner.md); each has a physical meaning and a range it may not leave.
struct Constants {
  // Compute
  double gemm = 0.922;
  double gemm_air = 0.643;
  double gemm_memory = 1.47;
  double fp8 = 1.0;
  double fp8_row = 0.512;
  double fp4 = 0.794;
  double grouped = 0.74;
  double apart = 0.254;
  double power = 0.057;
  double flash1 = 0.205;
  double flash2 = 0.332;
  double flash_new = 0.45;
  double score_passes = 4.65;
  double memory_rate = 0.95;
  double eager_norm = 102.0;
  double launch = 2.1e-05;
  // Communication
  double link = 0.849;
  double nic = 0.798;
  double far = 0.31;
  double latency = 3.04;
  double overlap = 0.53;
  double to_all = 0.856;
  double to_all_far = 0.83;
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
