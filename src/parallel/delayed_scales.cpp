#include "parallel/delayed_scales.h"

#include <algorithm>

#include "base/parse.h"
#include "ops/delayed_amax.h"
#include "tensor/copy.h"

namespace sextant {

DelayedScales::DelayedScales(Stream& stream, std::span<Param> params, const Fp8Scaling& scaling)
    : scaling_(scaling) {
  int64_t rows = 0;
  for (Param& param : params) {
    if (!param.is_linear) continue;
    param.linear = rows;
    rows += kOperandKinds * param.scales();
    layers_.push_back({param.name, {param.linear, rows}});
  }
  if (rows == 0) return;
  Arena& arena = stream.arena();
  state_ = arena.allocate(Category::Workspace, DType::F32, {rows, 1 + scaling.history});
  found_ = arena.allocate(Category::Workspace, DType::F32, {rows});
  fill_zero(stream, state_);
}

void DelayedScales::begin(Stream& stream) {
  if (is_used()) fill_zero(stream, found_);
}

void DelayedScales::take(Stream& stream, Tensor& amax, const Param& weight,
                         OperandKind kind) const {
  const bool may_be_new = weight.experts > 0 && kind != OperandKind::Weight;
  const WithAmax with = is_first_    ? WithAmax::Found
                        : may_be_new ? WithAmax::UsedIfAny
                                     : WithAmax::Used;
  for (int64_t i = 0; i < weight.own_scales(); ++i) {
    Tensor own = amax.slice(i, i + 1), most = found(weight, kind, i);
    take_delayed_amax(stream, own, most, used(weight, kind, i), with);
  }
}

int64_t DelayedScales::row_of(const Param& weight, OperandKind kind, int64_t scale) const {
  const int64_t own = weight.experts > 0 ? weight.own_experts.begin : 0;
  return weight.linear + static_cast<int64_t>(kind) * weight.scales() + own + scale;
}

Tensor DelayedScales::used(const Param& weight, OperandKind kind, int64_t scale) const {
  const int64_t at = row_of(weight, kind, scale) * state_.dim(1);
  return state_.view(Shape{state_.elements()}).slice(at, at + 1).view({1, 1});
}

Tensor DelayedScales::found(const Param& weight, OperandKind kind, int64_t scale) const {
  const int64_t row = row_of(weight, kind, scale);
  return found_.slice(row, row + 1).view({1, 1});
}

void DelayedScales::finish(Stream& stream, std::span<Communicator* const> groups, bool keeps_own) {
  if (!is_used()) return;
  std::vector<float> own;
  if (keeps_own) {  // a bug, for tests
    own.resize(static_cast<size_t>(found_.elements()));
    copy_to_host<float>(stream, own, found_);
  }
  for (Communicator* ranks : groups)
    if (ranks->size() > 1) ranks->all_reduce(stream, found_, ReduceOp::Max);
  if (keeps_own) copy_from_host<float>(stream, found_, own);
  update_delayed_amax(stream, state_, found_, scaling_.margin);
  is_first_ = false;
}

std::vector<NamedTensor> DelayedScales::state() const {
  std::vector<NamedTensor> all;
  for (const Layer& layer : layers_) {
    const Tensor own = state_.slice(layer.rows);
    all.push_back({concat(kAmaxHistory, layer.weight), own, layer.rows.size(), own.shape()});
  }
  return all;
}

void DelayedScales::was_filled(Stream& stream) {
  if (!is_used()) return;
  std::vector<float> values(static_cast<size_t>(state_.elements()));
  copy_to_host<float>(stream, values, state_);
  is_first_ = std::ranges::all_of(values, [](float value) { return value == 0; });
}

}  // namespace sextant
