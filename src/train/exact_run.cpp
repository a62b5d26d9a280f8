#include "train/exact_run.h"

#include <utility>

namespace sextant {
namespace {

// On a GPU, whose ops have no f64, in fp32.
Config in_wide_type(Config config) {
  config.precision = PrecisionConfig{};
  if (config.run.device == RunDevice::Cpu) config.precision.compute = ComputeType::Fp64;
  return config;
}

}  // namespace

ExactRun::ExactRun(const Config& config, std::vector<std::vector<MicroSlice>> micros,
                   const Loader& data, Storage& storage, const Clock& clock)
    : run_(in_wide_type(config), std::move(micros), data, storage, clock) {}

ExactRun::Result ExactRun::compute_gradients(int64_t steps_done, const GlobalState& state,
                                             const ChosenExperts::Table& experts,
                                             double loss_scale) {
  run_.get().start_at(steps_done, state, run_.micros());
  ChosenExperts own(experts);
  const double loss = run_.get().compute_gradients(&own);
  Result result{loss, run_.get().gradients(), own.own()};
  for (auto& [name, values] : result.gradients)
    if (!is_load_error(name))
      for (float& value : values) value *= static_cast<float>(loss_scale);
  return result;
}

}  // namespace sextant
