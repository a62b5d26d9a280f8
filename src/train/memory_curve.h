#pragma once
#include <string>
#include <vector>

#include "base/category.h"
#include "train/preflight.h"

namespace sextant {

// Bytes of each category from `time` on.
struct MemoryAt {
  double time = 0;  // fraction of the step
  CategoryBytes bytes{};
  int64_t total() const;
};

// A part of a step in which the same pass of the same micro-batch runs.
struct StepPhase {
  double begin = 0, end = 0;
  std::string pass;  // "forward", "recompute", "backward", ...; "update" at the end of the step
  int micro = -1;
};

// Memory of one kind of rank over a step.
struct MemoryCurve {
  std::vector<int> ranks;  // of this kind
  MemoryEstimate memory;   // of the run, evaluations included
  std::vector<MemoryAt> points;
  std::vector<StepPhase> phases;
};

// Of the second step on a phantom device, one for each kind of rank. Bytes are exact; times are
// simulated at typical rates.
std::vector<MemoryCurve> memory_curves(const Config& config, const Preflight& flight);

// Curves above each other as stacked areas, with the memory limit as a line. Of more than twelve
// those with the largest peaks.
std::string memory_svg(const std::vector<MemoryCurve>& curves, const Config& config,
                       int64_t memory_limit);

}  // namespace sextant
