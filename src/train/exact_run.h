#pragma once
#include <vector>

#include "train/one_rank_run.h"

namespace sextant {

// One rank that computes in fp64 what a run computes in a narrow type, from the same weights: the
// distance from it is the error of a narrow run. On a GPU it computes in fp32, whose rounding is
// 2^-13 to 2^-16 of theirs.
class ExactRun {
 public:
  // `config`: one rank that takes all micro-batches of a step, `micros`.
  ExactRun(const Config& config, std::vector<std::vector<MicroSlice>> micros, const Loader& data,
           Storage& storage, const Clock& clock);

  struct Result {
    double loss = 0;
    GlobalTensors gradients;
    ChosenExperts::Table experts;  // what its routers chose
  };
  // The step after `steps_done` steps from this state, whose tokens go where `experts` says, with
  // its gradients times `loss_scale`.
  Result compute_gradients(int64_t steps_done, const GlobalState& state,
                           const ChosenExperts::Table& experts, double loss_scale);

 private:
  OneRankRun run_;
};

}  // namespace sextant
