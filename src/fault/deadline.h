#pragma once
#include "base/clock.h"

namespace sextant {

// A timeout that starts when this is constructed.
class Deadline {
 public:
  Deadline(const Clock& clock, double seconds)
      : clock_(&clock), seconds_(seconds), end_(clock.now() + seconds) {}
  bool is_over() const { return clock_->now() >= end_; }
  double left() const { return end_ - clock_->now(); }  // seconds, negative when over
  double seconds() const { return seconds_; }           // the whole timeout, for messages

 private:
  const Clock* clock_;
  double seconds_, end_;
};

}  // namespace sextant
