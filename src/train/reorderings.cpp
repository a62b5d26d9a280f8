#include "train/reorderings.h"

#include <utility>

#include "base/error.h"
#include "base/last_bit.h"
#include "fault/inject.h"

namespace sextant {
namespace {

// The next larger or smaller number, at random.
void change_last_bits(GlobalTensors& tensors, DType type, int64_t seed) {
  for (auto& [name, values] : tensors) {
    const Random random(static_cast<uint64_t>(seed), name);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != 0)
        values[i] += (random.bits(i) % 2 == 0 ? 1.0F : -1.0F) * last_bit(values[i], type);
  }
}

// Attention outputs of every layer change in their last bits too: keys are the one sum that no
// order of the model's parts changes.
Config with_other_bits(Config config) {
  config.fault.inject = info_of(InjectionKind::LastBits).name;
  return config;
}

}  // namespace

Reorderings::Reorderings(const Config& config, std::vector<std::vector<MicroSlice>> micros,
                         const Loader& data, Storage& storage, const Clock& clock)
    : run_(with_other_bits(config), std::move(micros), data, storage, clock) {}

std::vector<std::vector<MicroSlice>> Reorderings::ordered_micros(int64_t number) const {
  std::vector<MicroSlice> micros = run_.micros()[0];
  const Random random(static_cast<uint64_t>(number), "micro-batches");
  for (size_t i = micros.size(); i > 1; --i) std::swap(micros[i - 1], micros[random.below(i, i)]);
  return {micros};
}

GlobalState Reorderings::start_of(const PermutedModel& model, int64_t number,
                                  const GlobalState& state) const {
  GlobalState start{model.permuted(state.weights), model.permuted(state.optimizer),
                    state.loss_scaler, state.amax_histories, model.permuted(state.masters)};
  if (number % 2 == 1)
    change_last_bits(start.weights, number_types(run_.config().precision).compute, number);
  return start;
}

void Reorderings::compute_gradients(const Range& numbers, int64_t steps_done,
                                    const GlobalState& state, const ChosenExperts::Table& experts,
                                    const OnGradients& f) {
  for (int64_t number = numbers.begin; number < numbers.end; ++number) {
    const PermutedModel model(run_.get().blueprint(), static_cast<uint64_t>(number));
    const GlobalState start = start_of(model, number, state);
    run_.get().start_at(steps_done, start, ordered_micros(number));
    ChosenExperts own(experts);
    const double loss = run_.get().compute_gradients(&own);
    f({loss, model.restored(run_.get().gradients()), own.own()});
  }
}

void Reorderings::train(int64_t steps, const GlobalState& state, const OnEnd& f) {
  for (int64_t number = 0; number < kCount; ++number) {
    const PermutedModel model(run_.get().blueprint(), static_cast<uint64_t>(number));
    // Weights without a narrower copy keep their last bits: those are a part of the result.
    const bool is_master = run_.config().precision.compute == ComputeType::Fp32 ||
                           run_.config().precision.master == MasterWeights::None;
    run_.get().start_at(0, start_of(model, is_master ? 0 : number, state), ordered_micros(number));
    bool is_finite = true;
    try {
      for (int64_t step = 0; step < steps; ++step) run_.get().train_step();
    } catch (const Error& error) {
      if (!is_not_finite(error)) throw;
      is_finite = false;
    }
    GlobalState after;
    if (is_finite) after = run_.get().state();
    const std::vector<StepRecord> records = run_.get().records();
    if (!is_finite) run_.discard();  // its ranks have failed
    f(records, {model.restored(after.weights),
                model.restored(after.optimizer),
                {},
                {},
                model.restored(after.masters)});
  }
}

}  // namespace sextant
