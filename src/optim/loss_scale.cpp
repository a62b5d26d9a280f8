#include "optim/loss_scale.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr double kLeastScale = 1;

}  // namespace

LossScaler::LossScaler(const PrecisionConfig& precision)
    : is_used_(precision.compute == ComputeType::Fp16),
      is_dynamic_(is_used_ && precision.loss_scale == 0),
      window_(precision.loss_scale_window),
      hysteresis_(precision.loss_scale_hysteresis),
      tolerated_(hysteresis_) {
  if (is_used_) scale_ = is_dynamic_ ? precision.initial_loss_scale : precision.loss_scale;
}

// Tolerated overflows are used up one by one and come back only when the scale doubles: from then
// on until there, every overflow halves it.
void LossScaler::update(bool is_finite) {
  if (!is_used_) return;
  if (!is_finite) ++skipped_;
  if (!is_dynamic_) return;
  if (!is_finite) {
    clean_ = 0;
    tolerated_ = std::max(0, tolerated_ - 1);
    if (tolerated_ == 0) scale_ = std::max(scale_ / 2, kLeastScale);
  } else if (++clean_ == window_) {
    clean_ = 0;
    scale_ *= 2;
    tolerated_ = hysteresis_;
  }
}

LossScaler::State LossScaler::state() const {
  return {scale_, static_cast<double>(clean_), static_cast<double>(tolerated_),
          static_cast<double>(skipped_)};
}

void LossScaler::set_state(std::span<const double, kState> state) {
  if (!is_used_) return;
  if (is_dynamic_) {
    scale_ = state[0];
    clean_ = static_cast<int64_t>(state[1]);
    tolerated_ = static_cast<int>(state[2]);
  }
  skipped_ = static_cast<int64_t>(state[3]);
}

}  // namespace sextant
