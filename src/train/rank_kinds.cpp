#include "train/rank_kinds.h"

#include <algorithm>
#include <map>

#include "blueprint/groups.h"
#include "train/preflight.h"

namespace sextant {
namespace {

using Signature = std::vector<int64_t>;

// What tells ranks of one pipeline rank apart: sizes of what they own, and of what others have too.
Signature signature_of(const Config& config, const Blueprint& blueprint, const GroupPlan& plan,
                       int shard_rank, int tensor_rank) {
  std::vector<const ParamSpec*> specs;
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& spec : layer.params) specs.push_back(&spec);
  const int shards = config.parallel.zero > 0 ? config.parallel.shard : 1;
  Signature out = {tensor_rank == 0};  // it alone adds the bias of a row-parallel linear
  for (const GroupSpec& group : plan.groups) {
    const Share owned = share_of(group.elements, shards, shards > 1 ? shard_rank : 0);
    out.push_back(owned.size());
    int64_t first = 0;
    for (const int place : group.params) {
      const int number = plan.params[static_cast<size_t>(place)];
      const ParamSpec& spec = *specs[static_cast<size_t>(number)];
      const Share shared{first + spec.shared.begin, first + spec.shared.end};
      if (spec.copies > 1)
        out.insert(out.end(), {overlap(shared, owned).size(), tensor_rank % spec.copies == 0});
      first += spec.elements();
    }
  }
  return out;
}

}  // namespace

RankKinds::RankKinds(const Config& config, const Blueprint& blueprint, const Pipeline& pipeline)
    : shape_(mesh_shape(config.parallel)) {
  const ParallelConfig& parallel = config.parallel;
  kinds_.resize(static_cast<size_t>(parallel.pp) * static_cast<size_t>(parallel.shard) *
                static_cast<size_t>(parallel.tp));
  Coordinates at{};
  for (int stage = 0; stage < parallel.pp; ++stage) {
    const GroupPlan plan = make_groups(blueprint, part_of(blueprint, pipeline, stage));
    std::map<Signature, int> known;
    at[static_cast<size_t>(Axis::Pp)] = stage;
    for (int shard = 0; shard < parallel.shard; ++shard) {
      at[static_cast<size_t>(Axis::Shard)] = shard;
      for (int tensor = 0; tensor < parallel.tp; ++tensor) {
        at[static_cast<size_t>(Axis::Tp)] = tensor;
        const auto [found, is_new] = known.emplace(
            signature_of(config, blueprint, plan, shard, tensor), representatives_.size());
        if (is_new) representatives_.push_back(rank_at(shape_, at));
        kinds_[place(at)] = found->second;
      }
    }
  }
}

size_t RankKinds::place(const Coordinates& at) const {
  const auto of = [&](Axis axis) { return static_cast<size_t>(at[static_cast<size_t>(axis)]); };
  const auto degree = [&](Axis axis) { return static_cast<size_t>(shape_.degree(axis)); };
  return (of(Axis::Pp) * degree(Axis::Shard) + of(Axis::Shard)) * degree(Axis::Tp) + of(Axis::Tp);
}

int RankKinds::kind_of(int rank) const {
  return kinds_[place(coordinates_of(shape_, rank))];
}

}  // namespace sextant
