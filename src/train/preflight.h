#pragma once
#include <string>

#include "blueprint/blueprint.h"
#include "blueprint/memory.h"
#include "config/load.h"

namespace sextant {

// What a run will need, known before anything is allocated.
struct Preflight {
  Blueprint blueprint;
  MemoryEstimate memory;
  int threads = 1;
  int64_t memory_limit = 0;  // bytes a rank may use
  double peak_flops = 0;     // of the machine, dense; 0 when not measured
};

// The question that `config` asks of the memory walk.
MemoryQuestion memory_question(const Config& config, int threads);

// Throws Error(Memory) when the prediction is above the limit.
Preflight preflight(const Config& config, double peak_flops);
std::string preflight_text(const Preflight& preflight, const ResolvedConfig& resolved);

// Compute threads of a rank: run.threads, or all cores this process may use.
int thread_count(const Config& config);

}  // namespace sextant
