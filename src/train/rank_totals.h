#pragma once
#include <optional>
#include <vector>

#include "comm/traffic.h"
#include "tensor/arena.h"
#include "train/preflight.h"

namespace sextant {

class ControlPlane;
class Trainer;

// What the ranks of a run take in memory and send, as predicted and as measured.

struct RankMemory {
  int rank = 0;
  int64_t peak = 0;      // peak bytes of the rank's tensors
  int64_t reserved = 0;  // bytes of its arena
  // Bytes outside of the arenas, on the first rank of a process: of the process, or, with ranks on
  // a GPU, all that is in use there (CUDA's context, cuBLAS, other programs). Predicted for a GPU
  // only, see outside_memory.h.
  int64_t outside = 0;
  CategoryBytes categories{};
  int64_t host = 0;  // bytes of offloaded tensors in host memory
};

// What the first rank and all ranks together send in a step, and the exposed communication of the
// first rank; a prediction has none.
struct StepSends {
  TrafficTable first, all;
  std::optional<AxisTimes> exposed = {};
};

std::vector<RankMemory> predicted_memory(const Preflight& flight);
StepSends predicted_sends(const Preflight& flight);

// Memory of all ranks, on the first one. Collective.
std::vector<RankMemory> measured_memory(Trainer& trainer, const Config& config);
// Of a step in which this rank sent `own`. Collective.
StepSends measured_sends(const TrafficTable& own, ControlPlane& control);

}  // namespace sextant
