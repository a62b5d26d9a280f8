#pragma once

namespace sextant {

// Seconds, behind a seam so that tests decide what time it is.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() const = 0;  // monotonic, from an arbitrary origin
  // `now` as it was at most some hundredths of a second ago, if that is cheaper.
  virtual double recently() const { return now(); }
  virtual double wall() const = 0;  // since the Unix epoch
};

// The machine's clock.
class SystemClock final : public Clock {
 public:
  double now() const override;
  double recently() const override;
  double wall() const override;
};

// A clock that stands until it is told to advance.
class ManualClock final : public Clock {
 public:
  double now() const override { return seconds_; }
  double wall() const override { return seconds_; }
  void advance(double seconds) { seconds_ += seconds; }

 private:
  double seconds_ = 0;
};

}  // namespace sextant
