#include "train/step_tracer.h"

namespace sextant {

StepTracer::StepTracer(Trainer& trainer, const Clock& clock)
    : trainer_(trainer), clock_(clock), times_(trainer.stream(), clock) {}

StepTracer::~StepTracer() {
  trainer_.arena().set_recorder(nullptr);
}

TimedTrace StepTracer::trace(const std::function<void()>& step) {
  TimedTrace out;
  times_.start();
  trainer_.arena().set_recorder(&recorder_);
  const double begin = clock_.now();
  step();
  out.step_s = clock_.now() - begin;
  trainer_.arena().set_recorder(nullptr);
  out.trace = recorder_.take();
  out.times = times_.read(out.trace.ops.size());
  return out;
}

}  // namespace sextant
