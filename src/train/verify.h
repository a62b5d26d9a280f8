#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/load.h"
#include "train/run.h"

namespace sextant {

// How two results compare: equal bits, a difference within rounding, or a larger one.
enum class Verdict { Equal, Rounding, Bug };
const char* name_of(Verdict verdict);

struct VerifyOptions {
  int64_t steps = 0;    // 0: minimum of train.steps and 5
  std::string against;  // "dp=4,zero=1"; "": one rank
};

// Verdict on one parameter over all steps. Differences are relative to the larger of the
// reference's largest absolute value and machine epsilon times the sum of absolute terms.
struct TensorVerdict {
  std::string name;
  Verdict verdict = Verdict::Equal;
  bool bitwise = true;
  double grad_max_rel = 0, weight_max_rel = 0;
  std::string problem;  // "" or the problem
};

struct VerifyReport {
  Verdict verdict = Verdict::Equal;
  bool bitwise = true;
  double loss_max_rel = 0, grad_max_rel = 0, weight_max_rel = 0;
  int64_t steps = 0;
  std::string layout, against;         // as text
  std::vector<TensorVerdict> tensors;  // in the model's order
};

// Trains some steps in the layout of `config` and in a reference layout, on the same micro-batches
// and from the same weights at every step, and compares loss, every gradient and every updated
// weight in global shape. Updated weights are compared with the reference optimizer's update of the
// layout's own gradients, so that the sign of a tiny gradient does not count twice. Every copy of a
// weight must have the bits of its owner's.
VerifyReport verify_layout(const Config& config, const VerifyOptions& options,
                           const RunContext& context);

// The table that `sextant verify` prints, and its last line.
std::string to_text(const VerifyReport& report);
std::string summary(const VerifyReport& report);

}  // namespace sextant
