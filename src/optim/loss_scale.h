#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "config/config.h"

namespace sextant {

// Loss scaling for fp16, whose gradients would underflow: the loss is multiplied by a scale, the
// gradients divided by it. The dynamic scale halves when gradients overflow, after `hysteresis`
// overflows, and doubles after `window` steps without one. Every rank knows of every overflow, so
// all have the same scale. For other types the scale is 1 and stays so.
class LossScaler {
 public:
  explicit LossScaler(const PrecisionConfig& precision);

  bool is_used() const { return is_used_; }
  double scale() const { return scale_; }
  int64_t skipped() const { return skipped_; }  // steps without an update so far

  // After a step: whether its gradients were finite.
  void update(bool is_finite);

  // To save and restore: scale, steps without overflow, overflows to tolerate, skipped steps.
  static constexpr int64_t kState = 4;
  using State = std::array<double, kState>;
  State state() const;
  void set_state(std::span<const double, kState> state);

 private:
  bool is_used_, is_dynamic_;
  int64_t window_;
  int hysteresis_;
  double scale_ = 1;
  int64_t clean_ = 0, skipped_ = 0;
  int tolerated_;
};

}  // namespace sextant
