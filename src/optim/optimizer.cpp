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

Optimizer::Optimizer(Stream& stream, std::span<Param> params, const OptimConfig& optim)
    : params_(params), optim_(optim) {
  const auto zeros = [&](const Param& param) {
    Tensor moment =
        stream.arena().allocate(Category::Optimizer, param.value.dtype(), param.value.shape());
    fill_zero(stream, moment);
    return moment;
  };
  for (const Param& param : params_) {
    if (moment_count(optim_) >= 1) first_.push_back(zeros(param));
    if (moment_count(optim_) >= 2) second_.push_back(zeros(param));
  }
}

void Optimizer::step(Stream& stream, int64_t step, double lr, double gradient_scale) {
  const auto count = static_cast<double>(step + 1);
  for (size_t i = 0; i < params_.size(); ++i) {
    Param& param = params_[i];
    const double decay = param.decay ? optim_.weight_decay : 0;
    if (optim_.name == OptimizerKind::AdamW) {
      adamw(stream, param.value, first_[i], second_[i], param.grad,
            {lr, optim_.beta1, optim_.beta2, optim_.eps, decay, 1 - std::pow(optim_.beta1, count),
             1 - std::pow(optim_.beta2, count), gradient_scale});
    } else {
      Tensor none;
      sgd(stream, param.value, first_.empty() ? none : first_[i], param.grad,
          {lr, optim_.momentum, decay, gradient_scale});
    }
  }
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& param = params_[i];
    if (!first_.empty())
      tensors.push_back({"optim.first_moment." + param.name, first_[i], param.valid_rows});
    if (!second_.empty())
      tensors.push_back({"optim.second_moment." + param.name, second_[i], param.valid_rows});
  }
  return tensors;
}

}  // namespace sextant
