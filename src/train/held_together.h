#pragma once
#include <map>
#include <string>

#include "train/equal_bits.h"
#include "train/exact_run.h"
#include "train/layout_run.h"
#include "train/reorderings.h"
#include "train/verify.h"

namespace sextant {

// Compares the steps of a watched layout with those that a reference makes from the same weights,
// and collects what is wrong in `report`.
class HeldTogether {
 public:
  HeldTogether(LayoutRun& layout, LayoutRun& reference, Reorderings& reorderings, ExactRun& exact,
               const EqualBits& bits, VerifyReport& report);

  // The weights before the first step.
  void check_start();
  // A step of the layout, and the step of the reference.
  void check_step(const WatchedStep& step);
  // The step after the last one checked, which was not finite in the layout.
  void check_not_finite(const std::string& error);
  // The copies of the weights after the last step.
  void check_end();

  bool has_found() const { return has_found_; }
  const GlobalState& start() const { return start_; }  // before the first step
  const GlobalState& last() const { return last_; }    // after the last step checked

 private:
  enum class What : uint8_t { Loss, Gradient, Experts };
  // A difference beyond the floor. Of Experts: the tokens that a router sends to others, and `size`
  // is the number of tokens.
  struct Suspect {
    TensorVerdict* tensor = nullptr;  // null: the loss
    double distance = 0, size = 0;    // root mean square
    double largest = 0, largest_size = 0;
    What what = What::Gradient;
    double noise = 0, largest_noise = 0;  // of the reorderings
    double layer = 0;                     // size of the largest gradient of its layer
  };
  // Differences up to this need no explanation.
  static double floor_of(What what, double size);
  bool is_narrow() const;
  bool is_all_rounding(const Suspect& suspect) const;
  double undecided_share() const;
  bool is_undecided(const Suspect& suspect) const;
  bool has_few_bits(const Suspect& suspect) const;
  bool is_far(const Suspect& suspect) const;
  bool is_settled(const Suspect& suspect) const;
  void check_samples(const WatchedStep& step);
  void check_copies(const std::vector<std::vector<std::string>>& digests);
  void check_replicas(const WatchedStep& step);
  void check_amax_histories(const WatchedStep& step);
  void check_statistics(const WatchedStep& step);
  void check_loss(double loss, double wanted);
  double size_in_layer(const GlobalTensors& gradients, const std::string& name) const;
  void check_gradients(const GlobalTensors& gradients, const GlobalTensors& wanted);
  void check_experts(const ChosenExperts::Table& experts, const ChosenExperts::Table& wanted);
  // Distances are measured from the reference, or in narrow types from an exact run.
  void measure_again(const StepResult& origin, const StepResult& layout);
  void add_noise(const StepResult& origin, const StepResult& other);
  void measure_noise(const Range& reorderings, const StepResult& origin,
                     const ChosenExperts::Table& experts);
  void judge_errors(const WatchedStep& step, const StepResult& layout, const StepResult& reference);
  void note_errors(const StepResult& exact, const StepResult& layout, const StepResult& reference);
  void judge_suspects(const StepResult& origin, const ChosenExperts::Table& experts);
  int64_t far_steps(const TensorVerdict& tensor);
  void conclude(const Suspect& suspect);
  bool check_norms(const WatchedStep& step);
  void check_update(const GlobalState& after);
  void check_tensor(TensorVerdict& tensor, const std::string& what, std::span<const float> got,
                    std::span<const float> wanted, std::span<const float> before);
  void accuse(const std::string& problem);
  void accuse(TensorVerdict& tensor, const std::string& problem);

  LayoutRun& layout_;
  LayoutRun& reference_;
  Reorderings& reorderings_;
  ExactRun& exact_;
  const EqualBits& bits_;
  VerifyReport& report_;
  GlobalState start_, last_;
  std::vector<Suspect> suspects_;
  struct FarSteps {
    int64_t count = 0, last = 0;
  };
  std::map<const TensorVerdict*, FarSteps> far_steps_;
  int64_t step_ = 0;  // being checked, counted from 1
  bool has_found_ = false;
};

}  // namespace sextant
