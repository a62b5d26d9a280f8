// What verify asks of a Trainer.
#include "base/error.h"
#include "ops/update.h"
#include "tensor/copy.h"
#include "train/trainer.h"

namespace sextant {

void Trainer::update_scaled(double gradient_scale) {
  optimizer_.set_scalars(stream_, step_ - scaler_.skipped(), learning_rate_now(), gradient_scale);
  optimizer_.step(stream_);
  params_.publish_weights(stream_);
  scaler_.update(true);
  ++step_;
  next_sample_ += config_.batch.global;
}

void Trainer::skip_update() {
  scaler_.update(false);
  ++step_;
  next_sample_ += config_.batch.global;
}

double Trainer::gradient_scale() {
  UpdateScalars scalars{};
  copy_to_host<double>(stream_, scalars, optimizer_.scalars());
  return scalars[static_cast<size_t>(UpdateScalar::GradientScale)];
}

void Trainer::start_at(int64_t steps_done, const std::vector<MicroSlice>& micros,
                       const LossScaler::State& loss_scaler) {
  SXT_CHECK(micros.size() == micros_.size(), Internal, micros.size(), " micro-batches in place of ",
            micros_.size());
  micros_ = micros;
  scaler_.set_state(loss_scaler);
  step_ = steps_done;
  next_sample_ = steps_done * config_.batch.global;
}

}  // namespace sextant
