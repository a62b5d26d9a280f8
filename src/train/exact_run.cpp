#include "train/exact_run.h"

#include <utility>

namespace sextant {
namespace {

Config in_fp32(Config config) {
  config.precision = PrecisionConfig{};
  return config;
}

}  // namespace

ExactRun::ExactRun(const Config& config, std::vector<std::vector<MicroSlice>> micros,
                   const Loader& data, Storage& storage, const Clock& clock)
    : config_(in_fp32(config)),
      micros_(std::move(micros)),
      data_(data),
      storage_(storage),
      clock_(clock) {}

ExactRun::Result ExactRun::compute_gradients(int64_t steps_done, const GlobalState& state,
                                             double loss_scale) {
  if (!run_) run_.emplace(config_, data_, LayoutRun::Options{.micros = micros_}, storage_, clock_);
  run_->start_at(steps_done, state, micros_);
  Result result{run_->compute_gradients(), run_->gradients()};
  for (auto& [name, values] : result.gradients)
    for (float& value : values) value *= static_cast<float>(loss_scale);
  return result;
}

}  // namespace sextant
