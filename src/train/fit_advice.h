#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "train/preflight.h"

namespace sextant {

// A change of settings, tried on the phantom device.
struct FitChange {
  std::vector<std::string> overrides;  // "memory.recompute=full"
  int64_t reserved = 0;                // bytes of the rank with the largest need
  // Step time relative to the run as it is: simulated (step_time.h), or a rough guess for steps too
  // long to be simulated.
  double step_ratio = 1;
  bool narrows = false;  // chooses narrower types, which other changes do not
};

// What would make a run fit that does not.
struct FitAdvice {
  int rank = 0;  // with the largest need
  Category largest = Category::Weights;
  int64_t largest_bytes = 0, reserved = 0;
  // At most three that fit: those that keep the precision first, then by expected step time.
  std::vector<FitChange> changes;
  std::optional<FitChange> least;  // if none fits: the least need that was found
  int tried = 0, untried = 0;
};

// Operations of the phantom device that all trials together may take: about a second, or less after
// a forecast that took long itself. Work is counted and not timed, so that a run gets the same
// advice on every machine.
int64_t operations_for_trials(const Config& config, const Preflight& flight);

// Tries changes that keep world size and global batch: first single settings, then, if fewer than
// three of these fit, combinations. `flight` is the forecast of the run.
FitAdvice advise_fit(const ResolvedConfig& resolved, const Preflight& flight, int64_t operations);

// "largest    activations ..." and "to fit     ...", several lines.
std::string advice_text(const FitAdvice& advice);

}  // namespace sextant
