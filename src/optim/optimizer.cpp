#include "optim/optimizer.h"

#include <cmath>
#include <map>

#include "base/random.h"
#include "ops/cast.h"
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

Optimizer::Optimizer(Stream& stream, std::span<OwnedSlice> slices, const OptimConfig& optim,
                     uint64_t seed)
    : slices_(slices), optim_(optim), seed_(seed) {
  const int64_t count = moment_count(optim_);
  const bool has_masters = !slices_.empty() && slices_[0].types.master != slices_[0].types.compute;
  if (has_masters) {
    const std::vector<Tensor> masters = make_state(stream, &NumberTypes::master);
    for (size_t i = 0; i < slices_.size(); ++i) slices_[i].master = masters[i];
  }
  if (count >= 1) first_ = make_state(stream, &NumberTypes::moments);
  if (count >= 2) second_ = make_state(stream, &NumberTypes::moments);
  scalars_ = stream.arena().allocate(Category::Workspace, DType::F64, {kUpdateScalars});
  for (size_t i = 0; i < slices_.size(); ++i) {
    const OwnedSlice& slice = slices_[i];
    const double decay = slice.decay ? optim_.weight_decay : 0;
    if (optim_.name == OptimizerKind::AdamW)
      add_adamw(i, decay);
    else
      sgd_parts_.push_back(
          {slice.value, count >= 1 ? first_[i] : Tensor(), slice.grad, decay, slice.master});
  }
}

// Zeros, one flat tensor per parameter group; returns a view per slice.
std::vector<Tensor> Optimizer::make_state(Stream& stream, DType NumberTypes::*dtype) const {
  std::map<int, int64_t> elements;  // by group
  std::map<int, DType> dtypes;
  for (const OwnedSlice& slice : slices_) {
    elements[slice.group] += slice.value.elements();
    dtypes[slice.group] = slice.types.*dtype;
  }
  std::map<int, Tensor> flat;
  for (const auto& [group, count] : elements) {
    flat[group] = stream.arena().allocate(Category::Optimizer, dtypes[group], {count});
    fill_zero(stream, flat[group]);
  }
  std::map<int, int64_t> placed;
  std::vector<Tensor> parts;
  for (const OwnedSlice& slice : slices_) {
    int64_t& at = placed[slice.group];
    parts.push_back(flat[slice.group].slice(at, at + slice.value.elements()));
    at += slice.value.elements();
  }
  return parts;
}

// One part, or where elements are rounded stochastically one for each range of rows: their places
// in the whole parameter choose the draws.
void Optimizer::add_adamw(size_t i, double decay) {
  const OwnedSlice& slice = slices_[i];
  const auto add = [&](const Range& part, const ElementIndex& index) {
    const auto cut = [&](const Tensor& tensor) {
      return tensor ? tensor.slice(part.begin, part.end) : Tensor();
    };
    adamw_parts_.push_back({cut(slice.value), cut(first_[i]), cut(second_[i]), cut(slice.grad),
                            decay, cut(slice.master), stable_hash(slice.name), index});
  };
  const NumberTypes& types = slice.types;
  const bool is_drawn = types.moments == DType::BF16 || types.master == DType::BF16;
  if (!is_drawn || slice.fragment.rows.empty()) return add({0, slice.range.size()}, {});
  const int64_t width = slice.fragment.columns.size(), stride = slice.fragment.whole_columns;
  int64_t first_row = 0;  // of the range of rows, in the shard
  for (const Range& rows : slice.fragment.rows) {
    const Range both = overlap({first_row * width, (first_row + rows.size()) * width}, slice.range);
    if (both.size() > 0)
      add({both.begin - slice.range.begin, both.end - slice.range.begin},
          {(rows.begin * stride) + slice.fragment.columns.begin, both.begin - first_row * width,
           width, stride});
    first_row += rows.size();
  }
}

void Optimizer::take_masters(Stream& stream) {
  for (OwnedSlice& slice : slices_)
    if (slice.master) cast(stream, slice.master, slice.value, Rounding::NearestEven, 0, 0);
}

void Optimizer::set_scalars(Stream& stream, int64_t step, double lr, double gradient_scale,
                            double loss_scale) {
  const auto count = static_cast<double>(step + 1);
  const UpdateScalars values = {lr,
                                1 - std::pow(optim_.beta1, count),
                                1 - std::pow(optim_.beta2, count),
                                gradient_scale,
                                1,
                                loss_scale,
                                static_cast<double>(step)};
  copy_from_host<double>(stream, scalars_, values);
}

void Optimizer::step(Stream& stream) {
  if (optim_.name == OptimizerKind::AdamW)
    adamw(stream, adamw_parts_, scalars_, {optim_.beta1, optim_.beta2, optim_.eps, seed_});
  else
    sgd(stream, sgd_parts_, scalars_, optim_.momentum);
}

std::vector<NamedTensor> Optimizer::state(Which which) const {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < slices_.size(); ++i) {
    const OwnedSlice& slice = slices_[i];
    if (which == Which::Saved && !slice.is_saved) continue;
    const std::vector<std::string> names = moment_names(optim_, slice.name);
    for (size_t k = 0; k < names.size(); ++k)
      tensors.push_back({names[k], k == 0 ? first_[i] : second_[i], slice.valid_rows, slice.shape,
                         slice.range.begin, slice.fragment});
  }
  return tensors;
}

}  // namespace sextant
