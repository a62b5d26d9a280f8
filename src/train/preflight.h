#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "blueprint/blueprint.h"
#include "blueprint/context_part.h"
#include "comm/ledger.h"
#include "config/load.h"
#include "mesh/axis.h"
#include "program/rank_part.h"
#include "trace/arena_plan.h"
#include "trace/memory_estimate.h"
#include "train/rank_kinds.h"

namespace sextant {

// What a rank sends in a step, by operation.
using StepTraffic = std::array<Traffic, kOperations>;

// What a run will need, known before anything is allocated.
struct Preflight {
  Blueprint blueprint;  // of the first of the ranks that share the layers
  Pipeline pipeline;
  RankKinds kinds;
  std::vector<MemoryEstimate> memory;                   // of each rank
  std::vector<MemoryEstimate> resident;                 // of each rank, between steps
  std::vector<StepTraffic> traffic;                     // of each kind of rank
  std::vector<std::shared_ptr<const ArenaPlan>> plans;  // of each rank's memory
  int threads = 1;                                      // of each rank
  int64_t memory_limit = 0;                             // bytes a rank may use
  double peak_flops = 0;  // of the machines, dense; 0 when not measured
};

struct PhantomOptions {
  bool counts_terms = false;  // as TrainerOptions has it
};

// Found by running one rank of each kind on a phantom device (phantom.h).
Preflight forecast(const Config& config, double peak_flops, const PhantomOptions& options = {});
// Throws Error(Memory) when a rank needs more than the limit.
void check_fits(const Preflight& preflight, const Config& config);
// Both.
Preflight preflight(const Config& config, double peak_flops, const PhantomOptions& options = {});
// The table of bytes of each category, one line for all ranks that need the same.
std::string memory_text(const Preflight& preflight);
std::string preflight_text(const Preflight& preflight, const ResolvedConfig& resolved);

// One of the ranks that share the layers.
TensorPart tensor_part(const ParallelConfig& parallel, int rank);

// The axes of a configuration as a mesh.
MeshShape mesh_shape(const ParallelConfig& parallel);

// Compute threads of a rank: run.threads, or its share of the cores this process may use.
int thread_count(const Config& config);

}  // namespace sextant
