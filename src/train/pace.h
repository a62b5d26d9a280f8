#pragma once
#include <cstdint>

#include "train/record.h"

namespace sextant {

// The speed of a run over the steps between its lines.
class Pace {
 public:
  void add(const StepRecord& step);
  // The record with tokens/s, FLOP/s, MFU, step and communication times averaged over the steps
  // since the last line.
  StepRecord since_line(const StepRecord& step) const { return averaged(step, line_); }
  // The same over the steps of the last line too, for what changes with every step.
  StepRecord recent(const StepRecord& step) const;
  void end_line();

  int64_t steps() const { return all_.steps; }
  double seconds() const { return all_.seconds; }
  double best_mfu() const { return best_mfu_; }  // of any step
  double tokens_per_s() const { return all_.seconds > 0 ? all_.tokens / all_.seconds : 0; }

 private:
  struct Sums {
    int64_t steps = 0;
    double seconds = 0, tokens = 0, flops = 0, of_peak = 0, comm = 0, exposed = 0;
    Sums& operator+=(const Sums& other);
  };
  static StepRecord averaged(const StepRecord& step, const Sums& sums);

  Sums all_, last_, line_;  // of the run, of the last line, since it
  double best_mfu_ = 0;
};

}  // namespace sextant
