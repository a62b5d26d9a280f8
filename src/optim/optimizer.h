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

// Number of moments per parameter.
int64_t moment_count(const OptimConfig& optim);
// Names of a parameter's moments, "optim.first_moment.<parameter>".
std::vector<std::string> moment_names(const OptimConfig& optim, const std::string& param);

// AdamW or SGD over the shards that a rank owns. Weight decay applies to parameters with `decay`.
class Optimizer {
 public:
  // The slices must outlive it. Moments start at zero. Slices whose types ask for master weights
  // get them, without values yet. `seed`: of stochastic rounding.
  Optimizer(Stream& stream, std::span<OwnedSlice> slices, const OptimConfig& optim,
            uint64_t seed = 0);

  // Copies the weights into their masters: after weights were initialised.
  void take_masters(Stream& stream);

  // Scalars of the next update in device memory: the learning rate and bias corrections of update
  // `step`, counted from 0, and the scale of its gradients unless clip() writes it.
  Tensor& scalars() { return scalars_; }
  // Gradients are those of the loss times `loss_scale`.
  void set_scalars(Stream& stream, int64_t step, double lr, double gradient_scale = 1,
                   double loss_scale = 1);
  // One update of all slices, with these scalars.
  void step(Stream& stream);

  // Its tensors for a checkpoint, such as "optim.first_moment.<parameter>": all of them, or without
  // those of duplicates that another rank saves.
  enum class Which { All, Saved };
  std::vector<NamedTensor> state(Which which = Which::All) const;

 private:
  // A tensor of zeros for each slice, of the dtype that its types say.
  std::vector<Tensor> make_state(Stream& stream, DType NumberTypes::*dtype) const;
  void add_adamw(size_t i, double decay);

  std::span<OwnedSlice> slices_;
  OptimConfig optim_;
  uint64_t seed_;
  std::vector<Tensor> first_, second_;  // by slice; second_ only for AdamW
  std::vector<AdamWPart> adamw_parts_;  // one of the two is empty
  std::vector<SgdPart> sgd_parts_;
  Tensor scalars_;
};

}  // namespace sextant
