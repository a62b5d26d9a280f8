#pragma once
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
  struct Suspect {
    TensorVerdict* tensor = nullptr;  // null: the loss
    double distance = 0, size = 0;    // root mean square
    double largest = 0, largest_size = 0;
    double noise = 0, largest_noise = 0;  // of the reorderings
  };
  // What distances are measured from: the reference, or in narrow types an exact run.
  struct Origin {
    double loss = 0;
    const GlobalTensors& gradients;
  };
  bool is_narrow() const;
  bool is_undecided(const Suspect& suspect) const;
  bool is_far(const Suspect& suspect) const;
  void check_samples(const WatchedStep& step);
  void check_copies(const std::vector<std::vector<std::string>>& digests);
  void check_amax_histories(const WatchedStep& step);
  void check_statistics(const WatchedStep& step);
  void check_loss(double loss, double wanted);
  void check_gradients(const GlobalTensors& gradients, const GlobalTensors& wanted);
  void measure_again(const Origin& origin, const WatchedStep& step);
  void add_noise(const Origin& origin, double loss, const GlobalTensors& gradients);
  void measure_noise(const Range& reorderings, const Origin& origin);
  void judge_errors(const WatchedStep& step, const Origin& reference);
  void note_errors(const Origin& exact, const WatchedStep& step, const Origin& reference);
  void judge_suspects(const Origin& origin);
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
  int64_t step_ = 0;  // being checked, counted from 1
  bool has_found_ = false;
};

}  // namespace sextant
