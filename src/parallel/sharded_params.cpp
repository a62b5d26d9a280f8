#include "parallel/sharded_params.h"

#include <algorithm>

#include "ops/add.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

FlatGroup make_group(std::vector<Param>& params, const ParamGroups& layout, size_t index) {
  FlatGroup group;
  group.name = layout.names[index];
  group.index = index;
  for (const size_t param : layout.params[index]) {
    group.params.push_back(&params[param]);
    group.offsets.push_back(group.elements);
    group.elements += params[param].shape.elements();
  }
  return group;
}

}  // namespace

ShardedParams::ShardedParams(Stream& stream, std::vector<Param> params, ParamGroups groups,
                             Mesh* mesh, const ShardingOptions& options)
    : params_(std::move(params)), layout_(std::move(groups)), inject_(options.inject) {
  const int shards = mesh == nullptr ? 1 : mesh->shape().degree(Axis::Shard);
  stage_ = shards == 1 ? ZeroStage::None : options.stage;
  SXT_CHECK(shards == 1 || stage_ != ZeroStage::None, Internal, "shard = ", shards,
            " without anything to divide");
  if (mesh != nullptr) {
    world_ = &mesh->world();
    if (stage_ != ZeroStage::None) shards_ = &mesh->along(Axis::Shard);
    Communicator& others = stage_ == ZeroStage::None ? mesh->data() : mesh->along(Axis::Dp);
    if (others.size() > 1) replicas_ = &others;
  }
  Arena& arena = stream.arena();
  for (size_t i = 0; i < layout_.params.size(); ++i) {
    FlatGroup group = make_group(params_, layout_, i);
    const Share all{0, group.elements};
    group.owned = shards_ == nullptr ? all : share_of(group.elements, shards, shards_->rank());
    group.kept = stage_ == ZeroStage::Weights ? group.owned : all;
    group.kept_weights = arena.allocate(Category::Weights, options.dtype, {group.kept.size()});
    if (stage_ != ZeroStage::Weights) group.bind_values(group.kept_weights);
    if (options.gradients) {
      const bool divided = stage_ >= ZeroStage::Gradients;
      group.kept_gradient = arena.allocate(Category::Gradients, options.dtype,
                                           {divided ? group.owned.size() : group.elements});
      if (!divided) group.bind_gradients(group.kept_gradient);
    }
    groups_.push_back(std::move(group));
  }
  find_uses();
  list_owned();
}

void ShardedParams::find_uses() {
  const size_t layers = layout_.group_of_layer.size();
  first_layer_.resize(groups_.size(), layers);
  last_layer_.resize(groups_.size(), 0);
  uses_.resize(2 * layers, -1);
  std::vector<size_t> layers_of(groups_.size());
  for (size_t layer = 0; layer < layers; ++layer) {
    const size_t group = layout_.group_of_layer[layer];
    first_layer_[group] = std::min(first_layer_[group], layer);
    last_layer_[group] = std::max(last_layer_[group], layer);
    ++layers_of[group];
    uses_[place_of(Pass::Forward, layer)] = static_cast<int>(group);
    if (layout_.reads_in_backward[layer])
      uses_[place_of(Pass::Backward, layer)] = static_cast<int>(group);
  }
  for (size_t group = 0; group < groups_.size(); ++group)
    is_shared_.push_back(last_layer_[group] - first_layer_[group] + 1 != layers_of[group]);
}

void ShardedParams::list_owned() {
  owned_.resize(params_.size());  // in their order, which is not always that of the groups
  for (FlatGroup& group : groups_) {
    const Tensor values = group.owned_part(group.kept_weights);
    const Tensor gradients = group.owned_part(group.kept_gradient);
    group.for_each_piece(group.owned,
                         [&](const Param& param, const Share& range, const Share& place) {
                           owned_[static_cast<size_t>(&param - params_.data())] = {
                               param.name,
                               param.shape,
                               param.valid_rows,
                               param.decay,
                               range,
                               values.slice(place.begin, place.end),
                               gradients ? gradients.slice(place.begin, place.end) : Tensor()};
                         });
  }
}

void ShardedParams::begin_step(int micros) {
  micros_ = micros;
  micro_ = -1;
  ++step_;
  for (Param& param : params_) param.start_step();
}

void ShardedParams::begin_micro() {
  ++micro_;
  training_ = true;
}

void ShardedParams::begin_evaluation() {
  training_ = false;
}

size_t ShardedParams::place_of(Pass pass, size_t layer) const {
  const size_t layers = layout_.group_of_layer.size();
  return pass == Pass::Forward ? layer : 2 * layers - 1 - layer;
}

// The group that is read next after a place, or the next other one than the group there; -1: none
// in this step.
int ShardedParams::next_use(size_t place, Other other) const {
  const int current = uses_[place];
  const auto counts = [&](int group) {
    return group >= 0 && (other == Other::Any || group != current);
  };
  const size_t end = training_ ? uses_.size() : uses_.size() / 2;
  for (size_t next = place + 1; next < end; ++next)
    if (counts(uses_[next])) return uses_[next];
  return training_ && !is_last_micro() && counts(uses_.front()) ? uses_.front() : -1;
}

bool ShardedParams::is_hit(InjectionKind kind, const FlatGroup& group) const {
  return inject_.hits(kind, static_cast<int>(group.index), world_ == nullptr ? 0 : world_->rank(),
                      step_);
}

void ShardedParams::gather(Stream& stream, FlatGroup& group) {
  group.gathered =
      stream.arena().allocate(Category::Weights, group.kept_weights.dtype(), {group.elements});
  if (is_hit(InjectionKind::SkipGather, group)) {
    fill_zero(stream, group.gathered);
    return;
  }
  group.gathering = shards_->all_gather(stream, group.gathered, group.kept_weights, When::Later);
}

// The values of `group` are needed now, and those of the group after it soon.
void ShardedParams::open_window(Stream& stream, FlatGroup& group, size_t place) {
  open_ = &group;
  if (!group.gathered) gather(stream, group);
  group.gathering.wait();
  group.bind_values(group.gathered);
  const int next = next_use(place, Other::Group);
  if (next >= 0) gather(stream, groups_[static_cast<size_t>(next)]);
}

void ShardedParams::before(Stream& stream, Pass pass, size_t layer) {
  FlatGroup& group = groups_[layout_.group_of_layer[layer]];
  const size_t place = place_of(pass, layer);
  if (stage_ != ZeroStage::Weights)
    group.gathering.wait();
  else if (uses_[place] >= 0 && open_ != &group)
    open_window(stream, group, place);
  if (pass == Pass::Forward || layer != last_layer_[group.index] || !needs_bucket(group)) return;
  if (in_flight_ == &group) finish_bucket();  // of the micro-batch before
  group.bucket =
      stream.arena().allocate(Category::Gradients, group.kept_gradient.dtype(), {group.elements});
  group.bind_gradients(group.bucket);
  for (Param* param : group.params) param->start_step();
}

void ShardedParams::after(Stream& stream, Pass pass, size_t layer) {
  FlatGroup& group = groups_[layout_.group_of_layer[layer]];
  if (open_ == &group &&
      next_use(place_of(pass, layer), Other::Any) != static_cast<int>(group.index)) {
    group.bind_values(Tensor());
    group.gathered = Tensor();
    open_ = nullptr;
  }
  if (pass == Pass::Backward && layer == first_layer_[group.index]) reduce(stream, group);
}

// Divided gradients are made whole before they are reduced. A weight that several layers use gets
// one finished contribution from each micro-batch, as it would from as many ranks: the bits agree.
bool ShardedParams::needs_bucket(const FlatGroup& group) const {
  return stage_ >= ZeroStage::Gradients || (micro_ > 0 && is_shared_[group.index]);
}

// The gradient of the group is complete for this micro-batch.
void ShardedParams::reduce(Stream& stream, FlatGroup& group) {
  if (stage_ >= ZeroStage::Gradients) {
    reduce_bucket(stream, group);
    return;
  }
  if (group.bucket) {
    add(stream, group.kept_gradient, group.kept_gradient, group.bucket);
    group.bind_gradients(group.kept_gradient);
    group.bucket = Tensor();
  }
  if (is_last_micro() && !is_hit(InjectionKind::DropBucket, group)) {
    if (stage_ == ZeroStage::Optimizer) {
      Tensor own = group.owned_part(group.kept_gradient);
      group.reducing =
          shards_->reduce_scatter(stream, own, group.kept_gradient, Fold::Sum, When::Later);
    }
    sum_over_replicas(stream, group);
  }
}

void ShardedParams::reduce_bucket(Stream& stream, FlatGroup& group) {
  finish_bucket();
  group.bind_gradients(Tensor());
  stream.arena().recategorize(group.bucket, Category::Communication);
  in_flight_ = &group;
  if (is_hit(InjectionKind::DropBucket, group)) {
    copy(stream, group.kept_gradient, group.bucket.slice(group.owned.begin, group.owned.end));
    return;
  }
  group.reducing = shards_->reduce_scatter(stream, group.kept_gradient, group.bucket, Fold::Sum,
                                           When::Later, micro_ == 0 ? Into::Replace : Into::Add);
  if (is_last_micro()) sum_over_replicas(stream, group);
}

// Runs behind the reduction over the shards: collectives of a rank keep their order.
void ShardedParams::sum_over_replicas(Stream& stream, FlatGroup& group) {
  if (replicas_ == nullptr) return;
  Tensor own = group.owned_part(group.kept_gradient);
  group.replicating = replicas_->all_reduce(stream, own, Fold::Sum, When::Later);
}

void ShardedParams::finish_bucket() {
  if (in_flight_ == nullptr) return;
  in_flight_->reducing.wait();
  in_flight_->bucket = Tensor();
  in_flight_ = nullptr;
}

void ShardedParams::finish_gradients(Stream& stream) {
  finish_bucket();
  for (FlatGroup& group : groups_) {
    group.reducing.wait();
    group.replicating.wait();
    if (is_hit(InjectionKind::ScaleShard, group)) {
      Tensor own = group.owned_part(group.kept_gradient);
      add(stream, own, own, own);
    }
  }
}

void ShardedParams::publish_weights(Stream& stream) {
  if (stage_ != ZeroStage::Optimizer && stage_ != ZeroStage::Gradients) return;
  for (FlatGroup& group : groups_) {
    if (is_hit(InjectionKind::SkipGather, group)) continue;
    const Tensor own = group.owned_part(group.kept_weights);
    group.gathering = shards_->all_gather(stream, group.kept_weights, own, When::Later);
  }
}

void ShardedParams::settle() {
  for (FlatGroup& group : groups_) group.gathering.wait();
}

}  // namespace sextant
