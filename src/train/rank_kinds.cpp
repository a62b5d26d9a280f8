#include "train/rank_kinds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "program/groups.h"
#include "train/preflight.h"

namespace sextant {
namespace {

using Signature = std::vector<int64_t>;

// A rank's place among those that shard a group.
struct ShardPlace {
  int ranks = 1, rank = 0;
};

// Parameters of a group, as far as shards of it may differ: the number of elements, the ranges that
// tensor parallel ranks sum, the matrices that ZeRO-3 quantises before it gathers them, and which
// ranks shard it.
struct GroupShape {
  int64_t elements = 0;
  std::vector<Range> summed;
  std::vector<Range> quantised;
  bool is_expert = false;
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

// Without repetition: most groups of a model are equal blocks.
std::vector<GroupShape> group_shapes(const GroupPlan& plan,
                                     const std::vector<const ParamSpec*>& specs, bool quantises) {
  std::vector<GroupShape> shapes;
  for (const GroupSpec& group : plan.groups) {
    GroupShape shape{group.elements, {}, {}, group.is_expert};
    int64_t first = 0;
    for (const int place : group.params) {
      const ParamSpec& spec = *specs[static_cast<size_t>(plan.params[static_cast<size_t>(place)])];
      if (spec.is_partial)
        shape.summed.push_back({first + spec.shared.begin, first + spec.shared.end});
      if (quantises && spec.shape.size() == 2)
        shape.quantised.push_back({first, first + spec.elements()});
      first += spec.elements();
    }
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(std::move(shape));
  }
  return shapes;
}

// Distinguishes shard ranks of one pipeline rank: sizes of what they own, and how much of it is
// replicated or quantised.
Signature signature_of(const std::vector<GroupShape>& shapes, const ShardPlace& dense,
                       const ShardPlace& experts) {
  Signature out;
  for (const GroupShape& shape : shapes) {
    const ShardPlace& place = shape.is_expert ? experts : dense;
    const Range owned = even_part(shape.elements, place.ranks, place.rank);
    out.push_back(owned.size());
    for (const Range& summed : shape.summed) out.push_back(overlap(summed, owned).size());
    int64_t quantised = 0;
    for (const Range& matrix : shape.quantised) quantised += overlap(matrix, owned).size();
    out.push_back(quantised);
  }
  return out;
}

}  // namespace

RankKinds::RankKinds(const Config& config, const Blueprint& blueprint, const Pipeline& pipeline)
    : shape_(mesh_shape(config.parallel)) {
  const ParallelConfig& parallel = config.parallel;
  const bool has_spread_experts = shape_.expert_size() > 1;
  inner_ = has_spread_experts ? shape_.stage_size() : parallel.shard;
  std::vector<const ParamSpec*> specs;
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& spec : layer.params) specs.push_back(&spec);
  kinds_.resize(static_cast<size_t>(parallel.pp) * static_cast<size_t>(inner_));
  for (int stage = 0; stage < config.parallel.pp; ++stage) {
    const std::vector<GroupShape> shapes =
        group_shapes(make_groups(blueprint, part_of(blueprint, pipeline, stage)), specs,
                     config.precision.compute == ComputeType::Fp8 && parallel.zero == 3);
    std::map<Signature, int> known;
    for (int i = 0; i < inner_; ++i) {
      Coordinates at{};
      if (has_spread_experts)
        at = coordinates_of(shape_, i);
      else
        at[static_cast<size_t>(Axis::Shard)] = i;
      at[static_cast<size_t>(Axis::Pp)] = stage;
      const ShardPlace dense{parallel.shard, at[static_cast<size_t>(Axis::Shard)]};
      const ShardPlace experts =
          parallel.zero > 0 ? ShardPlace{shape_.edp(), i / shape_.expert_size()} : ShardPlace{};
      const auto [found, is_new] =
          known.emplace(signature_of(shapes, dense, experts), representatives_.size());
      if (is_new) representatives_.push_back(rank_at(shape_, at));
      kinds_[place(at)] = found->second;
    }
  }
}

size_t RankKinds::place(const Coordinates& at) const {
  const auto of = [&](Axis axis) { return static_cast<size_t>(at[static_cast<size_t>(axis)]); };
  const size_t inner = shape_.expert_size() > 1 ? static_cast<size_t>(rank_at(shape_, at) % inner_)
                                                : of(Axis::Shard);
  return of(Axis::Pp) * static_cast<size_t>(inner_) + inner;
}

int RankKinds::kind_of(int rank) const {
  return kinds_[place(coordinates_of(shape_, rank))];
}

}  // namespace sextant
