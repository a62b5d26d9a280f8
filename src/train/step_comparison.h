#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// What was said of a run's step before it began.
struct PredictedStep {
  double seconds = 0;
  std::string source;  // "machine.toml"
};

// A run held against its prediction.
struct ComparedStep {
  PredictedStep predicted;
  double measured_s = 0;                          // median
  int64_t steps = 0;                              // that it is the median of
  int64_t predicted_peak = 0, measured_peak = 0;  // bytes of the first rank

  double error() const { return predicted.seconds / measured_s - 1; }
};

// "step time 0.131 s measured (median of 10), 0.128 s predicted from machine.toml (-2.5 %); ..."
std::string to_text(const ComparedStep& compared);

// Gathers the steps of a run. The first one touches its memory for the first time and is left out.
class StepComparison {
 public:
  static constexpr size_t kDue = 10;  // steps after which a run says how it compares

  StepComparison(PredictedStep predicted, int64_t predicted_peak)
      : predicted_(std::move(predicted)), predicted_peak_(predicted_peak) {}

  // True when kDue steps are there.
  bool add(double seconds, int64_t peak) {
    peak_ = std::max(peak_, peak);
    if (is_first_) {
      is_first_ = false;
      return false;
    }
    seconds_.push_back(seconds);
    return seconds_.size() == kDue;
  }
  size_t steps() const { return seconds_.size(); }

  // Nothing before the second step.
  std::optional<ComparedStep> result() const {
    if (seconds_.empty()) return {};
    std::vector<double> sorted = seconds_;
    std::ranges::sort(sorted);
    return ComparedStep{predicted_, sorted[sorted.size() / 2], static_cast<int64_t>(sorted.size()),
                        predicted_peak_, peak_};
  }

 private:
  PredictedStep predicted_;
  int64_t predicted_peak_ = 0, peak_ = 0;
  bool is_first_ = true;
  std::vector<double> seconds_;
};

}  // namespace sextant
