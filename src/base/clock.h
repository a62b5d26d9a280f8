#pragma once

namespace sextant {

// Time in seconds, as an interface so that tests can control it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() const = 0;  // monotonic, from an arbitrary origin
  // Like `now` but possibly some hundredths of a second old, where that is cheaper.
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

// A clock that changes only by advance().
class ManualClock final : public Clock {
 public:
  double now() const override { return seconds_; }
  double wall() const override { return seconds_; }
  void advance(double seconds) { seconds_ += seconds; }

 private:
  double seconds_ = 0;
};

}  // namespace sextant
