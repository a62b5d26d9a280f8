#pragma once
#include <memory>

#include "comm/ledger.h"
#include "trace/memory_estimate.h"
#include "trace/trace.h"
#include "train/preflight.h"
#include "train/trainer.h"

namespace sextant {

// One rank of a run as it will be: found by running it on a phantom device.
struct PhantomRank {
  MemoryEstimate memory;
  MemoryEstimate resident;  // what it holds before the first step and between steps
  std::shared_ptr<const ArenaPlan> plan;
  std::array<Traffic, kOperations> traffic{};  // of the second step, by operation
};

// Runs the trainer of rank `rank` for two steps (the second awaits what the first published), an
// evaluation and, under post-validation, a step that is discarded and made again. `flight` needs
// blueprint, pipeline and threads.
PhantomRank run_phantom(const Config& config, const Preflight& flight, int rank,
                        const PhantomOptions& options = {});

// The steps and evaluations that run_phantom makes, on any device.
void rehearse(Trainer& trainer, const Config& config);

// The trace of what run_phantom does, at the addresses of its plan.
Trace trace_phantom(const Config& config, const Preflight& flight, int rank,
                    std::shared_ptr<const ArenaPlan> plan, const PhantomOptions& options = {});

// Two training steps and what settles the last one. The second is like all that follow: it awaits
// what the first left under way.
struct StepTraces {
  Trace trace;
  size_t second = 0, end = 0;  // operations: the first of the second step, the first after it
};
StepTraces trace_steps(const Config& config, const Preflight& flight, int rank,
                       std::shared_ptr<const ArenaPlan> plan);

}  // namespace sextant
