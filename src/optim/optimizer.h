#pragma once
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "ops/adamw.h"
#include "ops/sgd.h"
#include "parallel/param.h"
#include "tensor/stream.h"

namespace sextant {

// Optimizer tensors per parameter under these settings.
int64_t moment_count(const OptimConfig& optim);
// Names of the optimizer's tensors of a parameter, "optim.first_moment.<parameter>".
std::vector<std::string> moment_names(const OptimConfig& optim, const std::string& param);

// AdamW or SGD over what a rank owns of the parameters. Decay applies to those that want it.
class Optimizer {
 public:
  // The slices must outlive it. Moments start at zero.
  Optimizer(Stream& stream, std::span<OwnedSlice> slices, const OptimConfig& optim);

  // Where the scalars of the next update lie in device memory: the learning rate and corrections of
  // update number `step`, counted from 0, are written there, and the scale of its gradients, unless
  // clip() does that.
  Tensor& scalars() { return scalars_; }
  void set_scalars(Stream& stream, int64_t step, double lr, double gradient_scale = 1);
  // One update of everything, as the scalars say.
  void step(Stream& stream);

  // Its tensors for a checkpoint, such as "optim.first_moment.<parameter>": all that it keeps, or
  // without those that another rank speaks for.
  enum class Which { All, Counted };
  std::vector<NamedTensor> state(Which which = Which::All) const;

 private:
  std::vector<Tensor> make_moments(Stream& stream) const;

  std::span<OwnedSlice> slices_;
  OptimConfig optim_;
  std::vector<Tensor> first_, second_;  // by slice; second_ only for AdamW
  std::vector<AdamWPart> adamw_parts_;  // of one kind or the other
  std::vector<SgdPart> sgd_parts_;
  Tensor scalars_;
};

}  // namespace sextant
