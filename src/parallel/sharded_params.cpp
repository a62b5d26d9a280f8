#include "parallel/sharded_params.h"

#include <algorithm>

#include "ops/add.h"
#include "ops/quantize.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

FlatGroup make_group(std::vector<Param>& params, const GroupSpec& spec) {
  FlatGroup group;
  group.name = spec.name;
  group.number = spec.number;
  group.is_duplicated = spec.is_duplicated;
  group.is_expert = spec.is_expert;
  for (const int param : spec.params) {
    group.params.push_back(&params[static_cast<size_t>(param)]);
    group.offsets.push_back(group.elements);
    group.elements += group.params.back()->shape.elements();
  }
  return group;
}

// ZeRO-3 with linear layers in fp8.
void prepare_fp8(Arena& arena, FlatGroup& group) {
  if (!is_fp8(group.types.linear) || group.stage != ZeroStage::Weights) return;
  Fp8Gather& fp8 = group.fp8;
  int64_t blocks = 0;
  for (const Param* param : group.params) {
    const int64_t own =
        param->is_linear ? param->blocks(group.types.fp8.recipe).grid(param->shape).elements() : 0;
    fp8.amax_places.push_back({blocks, blocks + own});
    blocks += own;
    if (!param->is_linear) fp8.vector_elements += param->shape.elements();
  }
  fp8.is_used = blocks > 0;
  if (fp8.is_used) fp8.amax = arena.allocate(Category::Workspace, DType::F32, {blocks});
}

// This pipeline rank and, if there is one, the rank that holds the same groups.
std::vector<int> duplicate_ranks(Communicator& pipeline, RankPart::Duplicates duplicates) {
  const int rank = pipeline.rank(), mirror = pipeline.size() - 1 - rank;
  const bool has_one = duplicates == RankPart::Duplicates::Mirror ||
                       (duplicates == RankPart::Duplicates::Ends && std::min(rank, mirror) == 0);
  return ranks_where(pipeline.size(),
                     [&](int other) { return other == rank || (has_one && other == mirror); });
}

}  // namespace

ShardedParams::ShardedParams(Stream& stream, std::vector<Param> params, const GroupPlan& plan,
                             Mesh& mesh, const ShardingOptions& options)
    : params_(std::move(params)),
      plan_(plan),
      world_rank_(mesh.world().rank()),
      tensor_rank_(mesh.at(Axis::Tp)),
      tensor_(&mesh.along(Axis::Tp)),
      data_(&mesh.data()),
      duplicates_(mesh.along(Axis::Pp).subgroup(
          duplicate_ranks(mesh.along(Axis::Pp), options.duplicates), "duplicates")),
      inject_(options.inject) {
  Communicator& shards = mesh.along(Axis::Shard);
  stage_ = shards.size() == 1 ? ZeroStage::None : options.stage;
  SXT_CHECK(shards.size() == 1 || stage_ != ZeroStage::None, Internal, "shard = ", shards.size(),
            " without anything to divide");
  Arena& arena = stream.arena();
  for (const GroupSpec& spec : plan_.groups) {
    FlatGroup group = make_group(params_, spec);
    group.types = options.types;
    place(group, mesh, options.stage);
    const Range all{0, group.elements};
    group.owned = even_part(group.elements, group.shards->size(), group.shards->rank());
    group.kept = group.stage == ZeroStage::Weights ? group.owned : all;
    group.kept_weights =
        arena.allocate(Category::Weights, group.types.compute, {group.kept.size()});
    if (group.stage != ZeroStage::Weights) group.bind_values(group.kept_weights);
    prepare_fp8(arena, group);
    if (options.gradients) {
      const bool divided = group.stage >= ZeroStage::Gradients;
      group.kept_gradient = arena.allocate(Category::Gradients, group.types.gradients,
                                           {divided ? group.owned.size() : group.elements});
      if (!divided) group.bind_gradients(group.kept_gradient);
    }
    groups_.push_back(std::move(group));
  }
  if (is_fp8(options.types.linear) && options.types.fp8.recipe == Fp8Recipe::Delayed)
    delayed_ = DelayedScales(stream, params_, options.types.fp8);
  list_owned(mesh, options.is_second);
  make_copy_groups(mesh.along(Axis::Tp));
}

// The ranks over which a group is sharded, and those with the same shard.
void ShardedParams::place(FlatGroup& group, Mesh& mesh, ZeroStage wanted) {
  if (group.is_expert) {
    Communicator& replicas = mesh.along(ExpertAxis::Edp);
    group.stage = replicas.size() == 1 ? ZeroStage::None : wanted;
    const bool is_sharded = group.stage != ZeroStage::None;
    group.shards = is_sharded ? &replicas : &mesh.alone();
    group.replicas = is_sharded ? &mesh.alone() : &replicas;
    return;
  }
  group.stage = stage_;
  group.shards = &mesh.along(Axis::Shard);
  group.replicas = inject_.kind == InjectionKind::WithoutCp ? &mesh.along(Axis::Dp)
                   : stage_ == ZeroStage::None              ? &mesh.data()
                                                            : &mesh.replicas();
}

StateProgram ShardedParams::make_program(std::vector<LayerUse> uses) const {
  std::vector<int> zero;
  for (const FlatGroup& group : groups_) zero.push_back(static_cast<int>(group.stage));
  return StateProgram(plan_, std::move(uses), std::move(zero));
}

void ShardedParams::list_owned(Mesh& mesh, bool is_second) {
  const bool has_experts = mesh.shape().expert_size() > 1;
  // In the order of the parameters, which is not always that of the groups.
  std::vector<std::vector<OwnedSlice>> slices(params_.size());
  for (FlatGroup& group : groups_) {
    const int index = static_cast<int>(&group - groups_.data());
    // Of the ranks with the same shard.
    const bool is_first = (group.is_expert ? group.replicas->rank() : mesh.replicas().rank()) == 0;
    const Tensor values = group.owned_part(group.kept_weights);
    const Tensor gradients = group.owned_part(group.kept_gradient);
    const auto add = [&](const Param& param, const Range& range, const Range& place) {
      const Range& shared = param.shared;
      std::vector<OwnedSlice>& own = slices[static_cast<size_t>(&param - params_.data())];
      for (const Range& part :
           {Range{0, shared.begin}, shared, Range{shared.end, param.shape.elements()}}) {
        const Range cut = overlap(part, range);
        if (cut.size() == 0) continue;
        const Range at{place.begin + cut.begin - range.begin, place.begin + cut.end - range.begin};
        const bool is_copy = part == shared && tensor_rank_ % param.copies != 0 &&
                             inject_.kind != InjectionKind::CountCopies;
        const bool is_duplicate =
            group.is_duplicated && is_second && inject_.kind != InjectionKind::CountDuplicates;
        const bool decay =
            inject_.kind == InjectionKind::DecayedVectors ||
            (param.decay && !(inject_.kind == InjectionKind::LostDecay && cut.begin > 0));
        const bool is_saved = is_first && !is_copy && !is_duplicate;
        own.push_back({param.name, param.whole, param.valid_rows, decay, cut,
                       values.slice(at.begin, at.end),
                       gradients ? gradients.slice(at.begin, at.end) : Tensor(),
                       param.router_state == RouterState::None &&
                           (has_experts ? is_saved : !is_copy && !is_duplicate),
                       param.fragment, index, group.types, is_saved});
        own.back().router_state = param.router_state;
      }
      if (own.empty())
        own.push_back({param.name, param.whole, param.valid_rows, param.decay, Range{},
                       values.slice(0, 0), gradients ? gradients.slice(0, 0) : Tensor(), true,
                       param.fragment, index, group.types});
      own.back().router_state = param.router_state;
    };
    group.for_each_piece(group.owned, add);
  }
  for (std::vector<OwnedSlice>& own : slices) owned_.insert(owned_.end(), own.begin(), own.end());
}

// All tensor-parallel ranks have the same parameters in the same order, so they create the same
// process groups.
void ShardedParams::make_copy_groups(Communicator& tensor) {
  const auto is_partial = [&](const Param& param) {
    return param.is_partial || (param.copies > 1 && inject_.kind == InjectionKind::SumCopies);
  };
  for (const Param& param : params_) {
    if (!is_partial(param) || copies_.contains(param.copies)) continue;
    const auto is_copy = [&](int rank) {
      return rank / param.copies == tensor.rank() / param.copies;
    };
    copies_[param.copies].ranks =
        tensor.subgroup(ranks_where(tensor.size(), is_copy), concat("copies ", param.copies));
  }
  // Slices come in the order of the parameters, one or several of each.
  size_t next = 0;
  for (size_t i = 0; i < owned_.size(); ++i) {
    while (params_[next].name != owned_[i].name) ++next;
    const Param& param = params_[next];
    if (is_partial(param) && overlap(param.shared, owned_[i].range).size() > 0)
      copies_.at(param.copies).slices.push_back(i);
  }
}

void ShardedParams::begin_step(const StateProgram& program) {
  begin_evaluation(program);
  ++step_;
  if (inject_.kind == InjectionKind::KeptGradients && step_ > 1) return;
  for (Param& param : params_) param.start_step();
}

void ShardedParams::begin_evaluation(const StateProgram& program) {
  program_ = &program;
  next_ = 0;
}

void ShardedParams::before(Stream& stream, const LayerUse& use) {
  SXT_CHECK(program_ != nullptr, Internal, "layer ", use.layer, " before the step was begun");
  if (next_ == 0) find_amax(stream);
  SXT_CHECK(next_ < program_->size() && use == program_->use(next_), Internal, "layer ", use.layer,
            " of micro-batch ", use.micro, " is not use ", next_, " of the program of ",
            program_->size());
  for (const StateEvent& event : program_->before(next_)) run(stream, event);
}

void ShardedParams::after(Stream& stream) {
  for (const StateEvent& event : program_->after(next_++)) run(stream, event);
}

void ShardedParams::end_uses() {
  for (Param& param : params_) param.forget_quantized();
}

void ShardedParams::run(Stream& stream, const StateEvent& event) {
  FlatGroup& group = groups_[static_cast<size_t>(event.group)];
  switch (event.step) {
    case StateStep::AwaitWeights:
      if (is_injected(InjectionKind::NoAwait, group)) return;
      return group.weight_gather.wait();
    case StateStep::GatherWeights:
      return gather(stream, group);
    case StateStep::BindWeights:
      group.weight_gather.wait();
      group.fp8.vector_gather.wait();
      return group.fp8.is_used ? group.bind_fp8() : group.bind_values(group.gathered);
    case StateStep::FreeWeights:
      return free_gathered(group);
    case StateStep::OpenBucket:
      return begin_bucket(stream, group);
    case StateStep::ReduceBucket:
      return reduce(stream, group, event);
    case StateStep::FreeBucket:
      group.shard_reduction.wait();
      group.bucket = Tensor();
      return;
  }
}

bool ShardedParams::is_injected(InjectionKind kind, const FlatGroup& group) const {
  return inject_.hits(kind, group.number, world_rank_, step_);
}

void ShardedParams::free_gathered(FlatGroup& group) {
  group.bind_values(Tensor());
  group.gathered = group.fp8.own = group.fp8.matrices = group.fp8.vectors = Tensor();
}

void ShardedParams::gather(Stream& stream, FlatGroup& group) {
  if (group.fp8.is_used) return gather_fp8(stream, group);
  group.gathered =
      stream.arena().allocate(Category::Weights, group.kept_weights.dtype(), {group.elements});
  if (is_injected(InjectionKind::SkipGather, group)) {
    fill_zero(stream, group.gathered);
    return;
  }
  group.weight_gather =
      group.shards->all_gather(stream, group.gathered, group.kept_weights, When::Later);
}

void ShardedParams::begin_bucket(Stream& stream, FlatGroup& group) {
  group.bucket =
      stream.arena().allocate(Category::Gradients, group.kept_gradient.dtype(), {group.elements});
  group.bind_gradients(group.bucket);
  for (Param* param : group.params) param->start_step();
}

void ShardedParams::reduce(Stream& stream, FlatGroup& group, const StateEvent& event) {
  // A parameter may have no gradient yet: in a duplicated group if only the other rank's layers use
  // it, in a group with tied weights if only the layers of another micro-batch did.
  for (Param* param : group.params)
    if (!param->touched) fill_zero(stream, param->grad);
  if (group.stage >= ZeroStage::Gradients) return reduce_bucket(stream, group, event);
  if (group.bucket) {
    add(stream, group.kept_gradient, group.kept_gradient, group.bucket);
    group.bind_gradients(group.kept_gradient);
    group.bucket = Tensor();
  }
  if (!event.is_last || is_injected(InjectionKind::DropBucket, group)) return;
  if (group.stage == ZeroStage::Optimizer) {
    Tensor own = group.owned_part(group.kept_gradient);
    group.shard_reduction =
        group.shards->reduce_scatter(stream, own, group.kept_gradient, ReduceOp::Sum, When::Later);
  }
  sum_over_replicas(stream, group);
}

void ShardedParams::reduce_bucket(Stream& stream, FlatGroup& group, const StateEvent& event) {
  group.bind_gradients(Tensor());
  stream.arena().recategorize(group.bucket, Category::Communication);
  if (is_injected(InjectionKind::DropBucket, group)) {
    copy(stream, group.kept_gradient, group.bucket.slice(group.owned.begin, group.owned.end));
    return;
  }
  group.shard_reduction = group.shards->reduce_scatter(
      stream, group.kept_gradient, group.bucket, ReduceOp::Sum, When::Later,
      event.is_first || is_injected(InjectionKind::ReplacedBucket, group) ? Into::Replace
                                                                          : Into::Add);
  if (event.is_last) sum_over_replicas(stream, group);
}

// Runs after the reduction over the shards.
void ShardedParams::sum_over_replicas(Stream& stream, FlatGroup& group) {
  if (group.replicas->size() == 1 || is_injected(InjectionKind::DropReplicas, group)) return;
  Tensor own = group.owned_part(group.kept_gradient);
  const ReduceOp op = is_injected(InjectionKind::MaxBucket, group) ? ReduceOp::Max : ReduceOp::Sum;
  group.replicas->order_after(group.shard_reduction);
  group.replica_reduction = group.replicas->all_reduce(stream, own, op, When::Later);
  if (is_injected(InjectionKind::ReduceTwice, group))
    group.replica_reduction = group.replicas->all_reduce(stream, own, ReduceOp::Sum, When::Later);
}

// The gradients are copied into one buffer for a single all-reduce per process group.
void ShardedParams::sum_copies(Stream& stream) {
  const bool skips = inject_.hits(InjectionKind::SkipCopies, -1, world_rank_, step_);
  for (auto& entry : copies_) {
    Copies& copies = entry.second;
    int64_t elements = 0;
    for (const size_t i : copies.slices) elements += owned_[i].grad.elements();
    if (elements == 0) continue;
    Tensor all =
        stream.arena().allocate(Category::Communication, owned_[0].grad.dtype(), {elements});
    const auto for_each = [&](auto&& f) {
      int64_t at = 0;
      for (const size_t i : copies.slices) {
        const int64_t end = at + owned_[i].grad.elements();
        Tensor place = all.slice(at, end);
        f(owned_[i].grad, place);
        at = end;
      }
    };
    for_each([&](const Tensor& grad, Tensor& place) { copy(stream, place, grad); });
    if (!skips) copies.ranks->all_reduce(stream, all, ReduceOp::Sum);
    for_each([&](Tensor& grad, const Tensor& place) { copy(stream, grad, place); });
  }
}

// Duplicates are summed here, not as soon as the first one is ready: later collectives of that rank
// would queue behind the sum, and the other duplicate may depend on them, which is a deadlock.
void ShardedParams::finish_gradients(Stream& stream) {
  for (const StateEvent& event : program_->at_end()) run(stream, event);
  for (FlatGroup& group : groups_) {
    if (!is_injected(InjectionKind::NoReduceWait, group)) {
      group.shard_reduction.wait();
      group.replica_reduction.wait();
    }
    Tensor own = group.owned_part(group.kept_gradient);
    if (is_injected(InjectionKind::ScaleShard, group)) add(stream, own, own, own);
  }
  if (inject_.hits(InjectionKind::MeanOverEdp, -1, world_rank_, step_)) scale_experts(stream);
  sum_copies(stream);
  for (FlatGroup& group : groups_) {
    Tensor own = group.owned_part(group.kept_gradient);
    if (group.is_duplicated && !is_injected(InjectionKind::SkipDuplicate, group))
      group.replica_reduction = duplicates_->all_reduce(stream, own, ReduceOp::Sum, When::Later);
  }
  for (FlatGroup& group : groups_)
    if (!is_injected(InjectionKind::NoReduceWait, group)) group.replica_reduction.wait();
  finish_amax(stream);
}

// A bug, for tests: the mean over the replicas of experts in place of the sum.
void ShardedParams::scale_experts(Stream& stream) {
  for (FlatGroup& group : groups_) {
    if (!group.is_expert) continue;
    Tensor own = group.owned_part(group.kept_gradient);
    std::vector<float> values(static_cast<size_t>(own.elements()));
    copy_floats_to_host(stream, values, own);
    for (float& value : values)
      value /= static_cast<float>(group.shards->size() * group.replicas->size());
    copy_floats_from_host(stream, own, values);
  }
}

void ShardedParams::publish_weights(Stream& stream) {
  for (FlatGroup& group : groups_) {
    if (group.stage != ZeroStage::Optimizer && group.stage != ZeroStage::Gradients) continue;
    if (is_injected(InjectionKind::SkipGather, group)) continue;
    const Tensor own = group.owned_part(group.kept_weights);
    group.weight_gather = group.shards->all_gather(stream, group.kept_weights, own, When::Later);
  }
}

void ShardedParams::await_weights() {
  for (FlatGroup& group : groups_) {
    group.weight_gather.wait();
    group.fp8.vector_gather.wait();
  }
}

void ShardedParams::discard_forward() {
  await_weights();
  for (FlatGroup& group : groups_)
    if (group.stage == ZeroStage::Weights) free_gathered(group);
  end_uses();
}

}  // namespace sextant
