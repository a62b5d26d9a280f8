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
  int64_t steps = 0;    // 0: train.steps, at least 3 and at most 5
  std::string against;  // "dp=4,zero=1"; "": one rank
};

// Verdict on one parameter over all steps.
struct TensorVerdict {
  std::string name;
  Verdict verdict = Verdict::Equal;
  bool bitwise = true;  // held together: gradients and updates
  // Held together: of a gradient, relative to its largest element or to the rounding that the
  // reorderings show, whichever is larger; of an updated weight or moment, relative to its update.
  double grad_max_rel = 0, update_max_rel = 0;
  // Narrow types: RMS distance of the gradient from that of one rank in fp64, relative to its RMS,
  // of the layout and of the reference, in the step where the layout's is largest.
  double error_rel = 0, reference_error_rel = 0;
  // Running free: of weight and moments after all steps, root mean square, relative to that of
  // their updates.
  double free_rel = 0;
  // False where rounding alone can change it as much: running free, and gradients of narrow types.
  bool is_judged = true;
  std::string problem;  // "" or the problem
};

struct VerifyReport {
  Verdict verdict = Verdict::Equal;
  bool bitwise = true;
  bool is_narrow = false;  // gradients were compared with those of fp64
  // Held together, over all tensors:
  double loss_max_rel = 0, grad_max_rel = 0, update_max_rel = 0;
  double norm_max_rel = 0;  // to the norm of the gathered gradients
  // Running free:
  bool ran_free = false;  // not after a bug was found
  double free_loss_max_rel = 0, free_norm_max_rel = 0, free_max_rel = 0;
  int64_t steps = 0;
  std::string end;                     // why it ended before the last step, or ""
  std::vector<std::string> problems;   // other than of a tensor: losses, norms, samples, races
  std::string layout, against;         // as text
  std::vector<TensorVerdict> tensors;  // in the model's order
};

// Trains some steps in the layout of `config` and compares them with a reference layout on the same
// micro-batches. docs/verify.md says how differences are judged.
//   Held together: the layout trains as train does, and is watched. The reference makes each step
//   from the layout's weights, and applies the layout's gradients and clip coefficient.
//   Running free: the reference trains by itself, too.
VerifyReport verify_layout(const Config& config, const VerifyOptions& options,
                           const RunContext& context);

// The table that `sextant verify` prints, and its last line.
std::string to_text(const VerifyReport& report);
std::string summary(const VerifyReport& report);

}  // namespace sextant
