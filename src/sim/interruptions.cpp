#include "sim/interruptions.h"

#include <limits>

namespace sextant {
namespace {

constexpr Interruption kTable[] = {
    {"Faulty GPU", "GPU", 148},
    {"GPU HBM3 memory", "GPU", 72},
    {"Software bug", "Dependency", 54},
    {"Network switch or cable", "Network", 35},
    {"Host maintenance", "Unplanned maintenance", 32},
    {"GPU SRAM memory", "GPU", 19},
    {"GPU system processor", "GPU", 17},
    {"NIC", "Host", 7},
    {"NCCL watchdog timeout", "Unknown", 7},
    {"Silent data corruption", "GPU", 6},
    {"GPU thermal interface and sensor", "GPU", 6},
    {"SSD", "Host", 3},
    {"Power supply", "Host", 3},
    {"Server chassis", "Host", 2},
    {"IO expansion board", "Host", 2},
    {"Dependency", "Dependency", 2},
    {"CPU", "Host", 2},
    {"System memory", "Host", 2},
};

}  // namespace

std::span<const Interruption> interruption_table() {
  return kTable;
}

int table_interruptions() {
  int all = 0;
  for (const Interruption& one : kTable) all += one.count;
  return all;
}

double mean_time_between(double gpus, double factor) {
  if (factor <= 0) return std::numeric_limits<double>::infinity();
  constexpr double kSeconds = kTableDays * 24 * 3600;
  return kSeconds * kTableGpus / (table_interruptions() * gpus * factor);
}

}  // namespace sextant
