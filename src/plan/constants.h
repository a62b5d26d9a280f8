#pragma once
#include <span>
#include <string_view>

namespace sextant {

// The numbers of the cost model that no data sheet gives. They were fitted to the table of
// published runs (docs/planner.md); each has a physical meaning and a range it may not leave.
struct Constants {
  // Compute
  double gemm = 0.919;
  double gemm_air = 0.626;
  double gemm_memory = 1.43;
  double fp8 = 1.0;
  double fp8_row = 0.492;
  double fp4 = 0.683;
  double grouped = 0.781;
  double apart = 0.277;
  double power = 0.104;
  double flash1 = 0.2;
  double flash2 = 0.335;
  double flash_new = 0.458;
  double score_passes = 4.66;
  double memory_rate = 0.923;
  double eager_norm = 94.4;
  double launch = 1.33e-05;
  // Communication
  double link = 0.912;
  double nic = 0.5;
  double latency = 4.0;
  double overlap = 0.362;
  double to_all = 0.74;
  double to_all_far = 0.814;
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
};
std::span<const ConstantInfo> constant_table();
inline constexpr int kMostConstants = 25;

}  // namespace sextant
