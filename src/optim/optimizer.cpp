#include "optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

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
                     uint64_t seed, HostArena* host)
    : slices_(slices), optim_(optim), seed_(seed), host_(host) {
  const int64_t count = moment_count(optim_);
  const bool has_masters = !slices_.empty() && slices_[0].types.master != slices_[0].types.compute;
  State masters, first, second;
  if (has_masters) masters = make_state(stream, &NumberTypes::master);
  if (count >= 1) first = make_state(stream, &NumberTypes::moments);
  if (count >= 2) second = make_state(stream, &NumberTypes::moments);
  first_ = first.parts;
  second_ = second.parts;
  scalars_ = stream.arena().allocate(Category::Workspace, DType::F64, {kUpdateScalars});
  if (!has_masters && count == 0) host_ = nullptr;  // nothing to offload
  if (host_ != nullptr) {
    for (size_t i = 0; i < masters.parts.size(); ++i) slices_[i].master = masters.parts[i];
    offload(stream, {&masters, &first, &second});
    return;
  }
  std::vector<SliceState> states(slices_.size());
  for (size_t i = 0; i < slices_.size(); ++i) {
    if (has_masters) states[i].master = slices_[i].master = masters.parts[i];
    if (count >= 1) states[i].first = first.parts[i];
    if (count >= 2) states[i].second = second.parts[i];
  }
  add_parts(states);
}

// Offloaded state is updated group by group: the parts of a group follow each other.
void Optimizer::add_parts(const std::vector<SliceState>& states) {
  std::vector<size_t> order(slices_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (host_ != nullptr)
    std::ranges::stable_sort(order, {}, [&](size_t i) { return slices_[i].group; });
  const auto part_count = [&] { return adamw_parts_.size() + sgd_parts_.size(); };
  for (const size_t i : order) {
    const OwnedSlice& slice = slices_[i];
    const double decay = slice.decay ? optim_.weight_decay : 0;
    const size_t before = part_count(), biases = bias_parts_.size(), loads = load_parts_.size();
    if (slice.router_state == RouterState::Bias)
      bias_parts_.push_back({slice.value, slice.grad, states[i].master});
    else if (slice.router_state == RouterState::Load)
      load_parts_.push_back({slice.value, slice.grad, states[i].master});
    else if (optim_.name == OptimizerKind::AdamW)
      add_adamw(i, decay, states[i]);
    else
      sgd_parts_.push_back({slice.value, states[i].first, slice.grad, decay, states[i].master});
    if (host_ == nullptr) continue;
    OffloadedGroup& group = offloaded_[static_cast<size_t>(slice.group)];
    if (group.last_part == 0) group.first_part = before;
    if (group.last_bias == 0) group.first_bias = biases;
    if (group.last_load == 0) group.first_load = loads;
    group.last_part = part_count();
    group.last_bias = bias_parts_.size();
    group.last_load = load_parts_.size();
  }
}

// Zeros, one flat tensor per parameter group.
Optimizer::State Optimizer::make_state(Stream& stream, DType NumberTypes::*dtype) const {
  std::map<int, int64_t> elements;  // by group
  std::map<int, DType> dtypes;
  for (const OwnedSlice& slice : slices_) {
    elements[slice.group] += slice.value.elements();
    dtypes[slice.group] = slice.types.*dtype;
  }
  State state;
  for (const auto& [group, count] : elements) {
    Tensor& flat = state.flat[group];
    if (host_ != nullptr) {
      flat = host_->allocate(Category::Optimizer, dtypes[group], {count});  // zeros
    } else {
      flat = stream.arena().allocate(Category::Optimizer, dtypes[group], {count});
      fill_zero(stream, flat);
    }
  }
  state.parts = parts_of(state.flat);
  return state;
}

// A view per slice.
std::vector<Tensor> Optimizer::parts_of(const std::map<int, Tensor>& flat) const {
  std::map<int, int64_t> placed;
  std::vector<Tensor> parts;
  for (const OwnedSlice& slice : slices_) {
    int64_t& at = placed[slice.group];
    parts.push_back(flat.at(slice.group).slice(at, at + slice.value.elements()));
    at += slice.value.elements();
  }
  return parts;
}

// Two buffers on the device for each kind of state, as large as its largest group, which the groups
// use in turn: the state of a group arrives while that of the group before is updated.
void Optimizer::offload(Stream& stream, const std::vector<const State*>& kinds) {
  std::vector<std::vector<Tensor>> parts;  // on the device, by kind and slice
  for (const State* kind : kinds) {
    std::map<int, Tensor> on_device;
    std::array<Tensor, 2> buffers;
    for (const auto& [group, flat] : kind->flat) {
      offloaded_.resize(std::max(offloaded_.size(), static_cast<size_t>(group) + 1));
      Tensor& buffer = buffers[static_cast<size_t>(group) % 2];
      if (!buffer) {
        int64_t most = 0;
        for (const auto& [other, tensor] : kind->flat)
          if (other % 2 == group % 2) most = std::max(most, tensor.elements());
        buffer = stream.arena().allocate(Category::Workspace, flat.dtype(), {most});
      }
      on_device[group] = buffer.slice(0, flat.elements());
      offloaded_[static_cast<size_t>(group)].host.push_back(flat);
      offloaded_[static_cast<size_t>(group)].device.push_back(on_device[group]);
    }
    parts.push_back(kind->flat.empty() ? std::vector<Tensor>(slices_.size()) : parts_of(on_device));
  }
  std::vector<SliceState> states;
  for (size_t i = 0; i < slices_.size(); ++i)
    states.push_back({parts[0][i], parts[1][i], parts[2][i]});
  add_parts(states);
}

// One part, or where elements are rounded stochastically one for each range of rows: their places
// in the whole parameter choose the draws.
void Optimizer::add_adamw(size_t i, double decay, const SliceState& state) {
  const OwnedSlice& slice = slices_[i];
  const auto add = [&](const Range& part, const ElementIndex& index) {
    const auto cut = [&](const Tensor& tensor) {
      return tensor ? tensor.slice(part.begin, part.end) : Tensor();
    };
    adamw_parts_.push_back({cut(slice.value), cut(state.first), cut(state.second), cut(slice.grad),
                            decay, cut(state.master), stable_hash(slice.name), index});
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

void Optimizer::set_scalars_on_host(int64_t step, double lr, double gradient_scale,
                                    double loss_scale) {
  const auto count = static_cast<double>(step + 1);
  scalars_on_host_ = {lr,
                      1 - std::pow(optim_.beta1, count),
                      1 - std::pow(optim_.beta2, count),
                      gradient_scale,
                      1,
                      loss_scale,
                      static_cast<double>(step)};
}

void Optimizer::set_scalars(Stream& stream, int64_t step, double lr, double gradient_scale,
                            double loss_scale) {
  set_scalars_on_host(step, lr, gradient_scale, loss_scale);
  copy_from_host<double>(stream, scalars_, scalars_on_host_);
}

void Optimizer::update(Stream& stream, size_t first_part, size_t last_part) {
  const size_t count = last_part - first_part;
  if (optim_.name == OptimizerKind::AdamW)
    adamw(stream, std::span(adamw_parts_).subspan(first_part, count), scalars_,
          {optim_.beta1, optim_.beta2, optim_.eps, seed_});
  else
    sgd(stream, std::span(sgd_parts_).subspan(first_part, count), scalars_, optim_.momentum);
}

void Optimizer::update_biases(Stream& stream, size_t first, size_t last) {
  if (last > first)
    router_bias_update(stream, std::span(bias_parts_).subspan(first, last - first), scalars_,
                       optim_.router_bias_rate);
}

void Optimizer::update_loads(Stream& stream, size_t first, size_t last) {
  if (last > first)
    router_load_update(stream, std::span(load_parts_).subspan(first, last - first), scalars_);
}

void Optimizer::fetch(Stream& stream, OffloadedGroup& group) {
  for (size_t i = 0; i < group.host.size(); ++i)
    group.fetched = copy_to_device(stream, *host_, group.device[i], group.host[i]);
}

void Optimizer::step(Stream& stream) {
  if (host_ == nullptr) {
    update(stream, 0, adamw_parts_.size() + sgd_parts_.size());
    update_biases(stream, 0, bias_parts_.size());
    return update_loads(stream, 0, load_parts_.size());
  }
  if (!offloaded_.empty()) fetch(stream, offloaded_[0]);
  HostCopy stored;
  for (size_t i = 0; i < offloaded_.size(); ++i) {
    OffloadedGroup& group = offloaded_[i];
    if (i + 1 < offloaded_.size()) fetch(stream, offloaded_[i + 1]);
    await_copy(stream, group.fetched);
    if (group.last_part > group.first_part) update(stream, group.first_part, group.last_part);
    update_biases(stream, group.first_bias, group.last_bias);
    update_loads(stream, group.first_load, group.last_load);
    for (size_t k = 0; k < group.host.size(); ++k)
      stored = copy_to_host_arena(stream, *host_, group.host[k], group.device[k]);
  }
  await_copy(stream, stored);  // whoever reads the state next does so in the order of the stream
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
