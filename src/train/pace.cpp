#include "train/pace.h"

#include <algorithm>

namespace sextant {

Pace::Sums& Pace::Sums::operator+=(const Sums& other) {
  steps += other.steps;
  seconds += other.seconds;
  tokens += other.tokens;
  flops += other.flops;
  of_peak += other.of_peak;
  comm += other.comm;
  exposed += other.exposed;
  return *this;
}

void Pace::add(const StepRecord& step) {
  const Sums one = {1,
                    step.step_s,
                    static_cast<double>(step.tokens),
                    step.tflops * step.step_s,
                    step.mfu * step.step_s,
                    step.comm_s,
                    step.comm_exposed_s};
  best_mfu_ = std::max(best_mfu_, step.mfu);
  all_ += one;
  line_ += one;
}

StepRecord Pace::recent(const StepRecord& step) const {
  Sums both = last_;
  both += line_;
  return averaged(step, both);
}

void Pace::end_line() {
  last_ = line_;
  line_ = {};
}

StepRecord Pace::averaged(const StepRecord& step, const Sums& sums) {
  if (sums.steps == 0 || sums.seconds <= 0) return step;
  const auto steps = static_cast<double>(sums.steps);
  StepRecord out = step;
  out.step_s = sums.seconds / steps;
  out.tokens_per_s = sums.tokens / sums.seconds;
  out.tflops = sums.flops / sums.seconds;
  out.mfu = sums.of_peak / sums.seconds;
  out.comm_s = sums.comm / steps;
  out.comm_exposed_s = sums.exposed / steps;
  return out;
}

}  // namespace sextant
