#pragma once
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/span_log.h"
#include "tensor/operation_times.h"
#include "trace/op_times.h"
#include "train/trainer.h"

namespace sextant {

// A step's operations and when they ran on the GPU.
struct TimedTrace {
  Trace trace;
  std::vector<OpTime> times;  // of each operation
  double step_s = 0;          // the step with its waits for the device, by the host's clock
};

// Records steps of a rank on a GPU with the times of their operations. Such a step is issued
// operation by operation, also where others are launched as a graph.
class StepTracer {
 public:
  // The trainer must outlive it.
  StepTracer(Trainer& trainer, const Clock& clock);
  ~StepTracer();
  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;

  // Runs `step`, which makes one step of the trainer.
  TimedTrace trace(const std::function<void()>& step);

 private:
  Trainer& trainer_;
  const Clock& clock_;
  TraceRecorder recorder_;
  OperationTimes times_;
};

}  // namespace sextant
