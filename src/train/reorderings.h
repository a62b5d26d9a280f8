#pragma once
#include <functional>
#include <vector>

#include "train/one_rank_run.h"
#include "train/permuted_model.h"

namespace sextant {

// Runs of one rank that measure what rounding does: the model of `config` with its parts in another
// order (PermutedModel) and its micro-batches in another order. In exact arithmetic they all give
// the same results; what they differ by is rounding.
//
// A sum of few terms can have the same bits in any order, and the order of keys is that of the
// sequence. So attention outputs differ in their last bit, and every other run also starts a step
// from weights that do, which is what rounding them would do.
class Reorderings {
 public:
  static constexpr int kCount = 8;
  static constexpr int kMore = 24;  // before a difference is called a bug

  // `config`: one rank that takes all micro-batches of a step, `micros`.
  Reorderings(const Config& config, std::vector<std::vector<MicroSlice>> micros, const Loader& data,
              Storage& storage, const Clock& clock);

  using OnGradients = std::function<void(const StepResult& result)>;
  // Calls f for the step of these reorderings from this state, whose tokens go where `experts`
  // says.
  void compute_gradients(const Range& numbers, int64_t steps_done, const GlobalState& state,
                         const ChosenExperts::Table& experts, const OnGradients& f);

  using OnEnd = std::function<void(const std::vector<StepRecord>& records, const GlobalState& end)>;
  // Calls f for kCount reorderings after `steps` steps from this state. Only narrow copies of
  // master weights have their last bits changed. One that becomes non-finite before has fewer
  // records.
  void train(int64_t steps, const GlobalState& state, const OnEnd& f);

 private:
  std::vector<std::vector<MicroSlice>> ordered_micros(int64_t number) const;
  GlobalState start_of(const PermutedModel& model, int64_t number, const GlobalState& state) const;

  OneRankRun run_;
};

}  // namespace sextant
