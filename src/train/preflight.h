#pragma once
#include <string>
#include <vector>

#include "blueprint/blueprint.h"
#include "blueprint/memory.h"
#include "config/load.h"
#include "mesh/axis.h"

namespace sextant {

// What a run will need, known before anything is allocated.
struct Preflight {
  Blueprint blueprint;  // of the first of the ranks that share the layers
  Pipeline pipeline;
  std::vector<MemoryEstimate> memory;  // of each rank
  int threads = 1;                     // of each rank
  int64_t memory_limit = 0;            // bytes a rank may use
  double peak_flops = 0;               // of the machines, dense; 0 when not measured
};

// The question that rank `rank` of `config` asks of the memory walk. The pipeline must outlive it.
MemoryQuestion memory_question(const Config& config, const Pipeline& pipeline, int threads,
                               int rank);

// Throws Error(Memory) when the prediction is above the limit.
Preflight preflight(const Config& config, double peak_flops);
std::string preflight_text(const Preflight& preflight, const ResolvedConfig& resolved);

// One of the ranks that share the layers.
TensorPart tensor_part(const ParallelConfig& parallel, int rank);

// The axes of a configuration as a mesh.
MeshShape mesh_shape(const ParallelConfig& parallel);

// Compute threads of a rank: run.threads, or its share of the cores this process may use.
int thread_count(const Config& config);

}  // namespace sextant
