#pragma once
#include <memory>

#include "base/budget.h"
#include "comm/ledger.h"
#include "trace/memory_estimate.h"
#include "trace/trace.h"
#include "train/preflight.h"
#include "train/trainer.h"

namespace sextant {

// Memory and traffic of one rank of a run, found by running it on a phantom device.
struct PhantomRank {
  MemoryEstimate memory;
  MemoryEstimate resident;                           // before the first step and between steps
  std::shared_ptr<const ArenaPlan> plan, host_plan;  // of its arena, and of offloaded tensors
  TrafficTable traffic;                              // of the second step
  GroupCounts groups;
  int left_out = 0;  // cycles of a step's steady state that were counted but not run
};

struct PhantomOptions {
  enum class Micros : uint8_t { SteadyOnce, All };
  Micros micros = Micros::SteadyOnce;
  Budget* budget = nullptr;  // of operations, or of bytes of a trace; null: no limit
};

// Runs the trainer of rank `rank` for two steps (the second awaits the weights that the first
// all-gathers), an evaluation and, with post-validation, a step that is discarded and redone. Of a
// steady state (program/steady_state.h) it runs some micro-batches and counts the others, unless
// `options` say otherwise; the plan is that of the whole run. `flight` needs blueprint, pipeline
// and threads.
PhantomRank run_phantom(const Config& config, const Preflight& flight, int rank,
                        const PhantomOptions& options = {});

// The steps and evaluations of run_phantom, on any device.
void rehearse(Trainer& trainer, const Config& config);

// The trace of run_phantom, at the addresses of its plan.
Trace trace_phantom(const Config& config, const Preflight& flight, int rank,
                    std::shared_ptr<const ArenaPlan> plan, Budget* budget = nullptr);

// Two training steps and the completion of the last one. The second is a steady-state step: it
// awaits what the first left in flight. With `on_operation` the trace has no operands
// (TraceRecorder::forget_operands).
struct StepTraces {
  Trace trace;
  size_t second = 0, end = 0;  // operations: start of the second step, and one past its end
};
StepTraces trace_steps(const Config& config, const Preflight& flight, int rank,
                       std::shared_ptr<const ArenaPlan> plan, Budget* budget = nullptr,
                       TraceRecorder::OnOperation on_operation = {});

}  // namespace sextant
