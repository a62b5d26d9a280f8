#include "optim/optimizer.h"

#include <cmath>
#include <map>

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
  const int64_t count = moment_count(optim_);
  if (count >= 1) first_ = make_moments(stream);
  if (count >= 2) second_ = make_moments(stream);
  scalars_ = stream.arena().allocate(Category::Workspace, DType::F64, {kUpdateScalars});
  for (size_t i = 0; i < slices_.size(); ++i) {
    const OwnedSlice& slice = slices_[i];
    const double decay = slice.decay ? optim_.weight_decay : 0;
    if (optim_.name == OptimizerKind::AdamW)
      adamw_parts_.push_back({slice.value, first_[i], second_[i], slice.grad, decay});
    else
      sgd_parts_.push_back({slice.value, count >= 1 ? first_[i] : Tensor(), slice.grad, decay});
  }
}

// Zeros, one flat tensor per parameter group; returns a view per slice.
std::vector<Tensor> Optimizer::make_moments(Stream& stream) const {
  std::map<int, int64_t> elements;  // by group
  std::map<int, DType> dtypes;
  for (const OwnedSlice& slice : slices_) {
    elements[slice.group] += slice.value.elements();
    dtypes[slice.group] = slice.types.moments;
  }
  std::map<int, Tensor> flat;
  for (const auto& [group, count] : elements) {
    flat[group] = stream.arena().allocate(Category::Optimizer, dtypes[group], {count});
    fill_zero(stream, flat[group]);
  }
  std::map<int, int64_t> placed;
  std::vector<Tensor> moments;
  for (const OwnedSlice& slice : slices_) {
    int64_t& at = placed[slice.group];
    moments.push_back(flat[slice.group].slice(at, at + slice.value.elements()));
    at += slice.value.elements();
  }
  return moments;
}

void Optimizer::set_scalars(Stream& stream, int64_t step, double lr, double gradient_scale) {
  const auto count = static_cast<double>(step + 1);
  const UpdateScalars values = {lr, 1 - std::pow(optim_.beta1, count),
                                1 - std::pow(optim_.beta2, count), gradient_scale, 1};
  copy_from_host<double>(stream, scalars_, values);
}

void Optimizer::step(Stream& stream) {
  if (optim_.name == OptimizerKind::AdamW)
    adamw(stream, adamw_parts_, scalars_, {optim_.beta1, optim_.beta2, optim_.eps});
  else
    sgd(stream, sgd_parts_, scalars_, optim_.momentum);
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
