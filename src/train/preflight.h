#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
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

// What the rank with the largest need reserves under balanced and under the worst routing.
struct ExpertMemory {
  int64_t balanced = 0, worst = 0;
};

// What a run needs, before anything is allocated.
struct Preflight {
  Blueprint blueprint;  // of tensor parallel rank 0
  Pipeline pipeline;
  RankKinds kinds;
  std::vector<MemoryEstimate> memory;                        // peak, by rank
  std::vector<MemoryEstimate> resident;                      // between steps, by rank
  std::vector<TrafficTable> traffic;                         // by kind of rank
  GroupCounts groups;                                        // of rank 0
  std::vector<std::shared_ptr<const ArenaPlan>> plans;       // memory plan, by rank
  std::vector<std::shared_ptr<const ArenaPlan>> host_plans;  // of offloaded tensors, by rank
  int threads = 1;                                           // per rank
  int64_t memory_limit = 0;                                  // bytes per rank; 0: not known here
  // Rows that the experts of a rank can receive, as a multiple of balanced routing; 0: the worst
  // case.
  double expert_capacity = 0;
  std::optional<ExpertMemory> expert_memory = {};
  double peak_flops = 0;   // dense, of the machine; 0 when not measured
  int64_t operations = 0;  // of the phantom device, that forecast took
};

// Runs one rank of each kind on a phantom device (phantom.h), at most with the operations of
// `budget`; null: with those of rehearsal_budget.
Preflight forecast(const Config& config, double peak_flops, Budget* budget = nullptr);
// What the fullest rank reserves, and the operations that this took. Of each pipeline rank only the
// first of its ranks is run, whose shards are the largest: others may differ by the alignment of
// tensors, some KiB. Refused where forecast would be.
struct LargestNeed {
  int64_t reserved = 0, operations = 0;
};
LargestNeed largest_need(const Config& config);
// Why a rank needs more than the limit, in one line; "" if none does.
std::string why_too_large(const Preflight& preflight, const Config& config);
// Throws Error(Memory) with that line.
void check_fits(const Preflight& preflight, const Config& config);
// forecast, then check_fits.
Preflight preflight(const Config& config, double peak_flops);
// Bytes by category, one line per set of ranks with equal needs.
std::string memory_text(const Preflight& preflight);
std::string preflight_text(const Preflight& preflight, const ResolvedConfig& resolved);

// This rank's place in its tensor parallel group.
TensorPart tensor_part(const ParallelConfig& parallel, int rank);

// This rank's place among those that have the experts between them.
ExpertPart expert_part(const ParallelConfig& parallel, int rank);

// The parallel axes of a configuration as a mesh.
MeshShape mesh_shape(const ParallelConfig& parallel);

// Compute threads of a rank on the CPU: run.threads, or its share of the cores this process may
// use. 1 on a GPU.
int thread_count(const Config& config);

}  // namespace sextant
