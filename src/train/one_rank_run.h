#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "train/layout_run.h"

namespace sextant {

// A run on one rank that takes all micro-batches of a step, made when it is first needed.
class OneRankRun {
 public:
  OneRankRun(Config config, std::vector<std::vector<MicroSlice>> micros, const Loader& data,
             Storage& storage, const Clock& clock)
      : config_(std::move(config)),
        micros_(std::move(micros)),
        data_(data),
        storage_(storage),
        clock_(clock) {}

  const Config& config() const { return config_; }
  const std::vector<std::vector<MicroSlice>>& micros() const { return micros_; }

  LayoutRun& get() {
    if (!run_)
      run_.emplace(config_, data_, LayoutRun::Options{.micros = micros_}, storage_, clock_);
    return *run_;
  }
  // After a failure of its rank; the next use makes a new one.
  void discard() { run_.reset(); }

 private:
  Config config_;
  std::vector<std::vector<MicroSlice>> micros_;
  const Loader& data_;
  Storage& storage_;
  const Clock& clock_;
  std::optional<LayoutRun> run_;
};

}  // namespace sextant
