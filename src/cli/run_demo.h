#pragma once
#include <string>

#include "train/run.h"

namespace sextant {

struct DemoResult {
  double loss_first = 0, loss_last = 0;
  std::string verify;  // verdict: does the layout compute what one rank does?
  std::string
      resume;        // "equal", "rounding" or "bug": the steps after a resume against the whole run
  std::string text;  // what the trained model writes
};

// The main job in small, on the built-in corpus, in well under a minute: trains a model on 8 ranks
// (2 replicas, each divided over 4), verifies the layout against one rank, resumes from half way on
// 4 ranks in another layout, compares, lets the model write. Leaves its files in `out`.
DemoResult run_demo(const std::string& out, const RunOptions& options, const RunContext& context);

}  // namespace sextant
