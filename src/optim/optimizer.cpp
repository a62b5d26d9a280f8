#include "optim/optimizer.h"

#include <cmath>

#include "ops/adamw.h"
#include "ops/sgd.h"
#include "tensor/copy.h"

namespace sextant {

int64_t moment_count(const OptimConfig& optim) {
  if (optim.name == OptimizerKind::AdamW) return 2;
  return optim.momentum != 0 ? 1 : 0;
}

std::vector<std::string> moment_names(const OptimConfig& optim, const std::string& param) {
  std::vector<std::string> names = {"optim.first_moment." + param, "optim.second_moment." + param};
  names.resize(static_cast<size_t>(moment_count(optim)));
  return names;
}

Optimizer::Optimizer(Stream& stream, std::span<OwnedSlice> slices, const OptimConfig& optim)
    : slices_(slices), optim_(optim) {
  const auto zeros = [&](const OwnedSlice& slice) {
    Tensor moment =
        stream.arena().allocate(Category::Optimizer, slice.value.dtype(), slice.value.shape());
    fill_zero(stream, moment);
    return moment;
  };
  for (const OwnedSlice& slice : slices_) {
    if (moment_count(optim_) >= 1) first_.push_back(zeros(slice));
    if (moment_count(optim_) >= 2) second_.push_back(zeros(slice));
  }
}

void Optimizer::step(Stream& stream, int64_t step, double lr, double gradient_scale) {
  const auto count = static_cast<double>(step + 1);
  for (size_t i = 0; i < slices_.size(); ++i) {
    OwnedSlice& slice = slices_[i];
    const double decay = slice.decay ? optim_.weight_decay : 0;
    if (optim_.name == OptimizerKind::AdamW) {
      adamw(stream, slice.value, first_[i], second_[i], slice.grad,
            {lr, optim_.beta1, optim_.beta2, optim_.eps, decay, 1 - std::pow(optim_.beta1, count),
             1 - std::pow(optim_.beta2, count), gradient_scale});
    } else {
      Tensor none;
      sgd(stream, slice.value, first_.empty() ? none : first_[i], slice.grad,
          {lr, optim_.momentum, decay, gradient_scale});
    }
  }
}

std::vector<NamedTensor> Optimizer::state(Which which) const {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < slices_.size(); ++i) {
    const OwnedSlice& slice = slices_[i];
    if (which == Which::Counted && !slice.counts) continue;
    const std::vector<std::string> names = moment_names(optim_, slice.name);
    for (size_t k = 0; k < names.size(); ++k)
      tensors.push_back({names[k], k == 0 ? first_[i] : second_[i], slice.valid_rows, slice.shape,
                         slice.range.begin, slice.fragment});
  }
  return tensors;
}

}  // namespace sextant
