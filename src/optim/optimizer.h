#pragma once
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
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

  // Update number `step`, counted from 0, with gradients multiplied by gradient_scale.
  void step(Stream& stream, int64_t step, double lr, double gradient_scale);

  // Its tensors for a checkpoint, such as "optim.first_moment.<parameter>": all that it keeps, or
  // without those that another rank speaks for.
  enum class Which { All, Counted };
  std::vector<NamedTensor> state(Which which = Which::All) const;

 private:
  std::vector<Tensor> make_moments(Stream& stream) const;

  std::span<OwnedSlice> slices_;
  OptimConfig optim_;
  std::vector<Tensor> first_, second_;  // by slice; second_ only for AdamW
};

}  // namespace sextant
