#pragma once
#include <string>

#include "train/run.h"

namespace sextant {

struct DemoResult {
  double loss_first = 0, loss_last = 0;
  std::string resume;  // "equal" when a resumed run ends in the same bits, else "rounding" or "bug"
  std::string text;    // what the trained model writes
};

// The main job in small, on the built-in corpus, in well under a minute: trains a model, stops half
// way and resumes from the checkpoint, compares the two ends, lets the model write. Leaves its
// files in `out`.
DemoResult run_demo(const std::string& out, const RunOptions& options, const RunContext& context);

}  // namespace sextant
