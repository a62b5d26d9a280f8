#include "train/rank_kinds.h"

#include <algorithm>
#include <map>

#include "program/groups.h"
#include "train/preflight.h"

namespace sextant {
namespace {

using Signature = std::vector<int64_t>;

// Distinguishes shard ranks of one pipeline rank: sizes of what they own, and how much of it is
// replicated.
Signature signature_of(const GroupPlan& plan, const std::vector<const ParamSpec*>& specs,
                       int shards, int shard_rank) {
  Signature out;
  for (const GroupSpec& group : plan.groups) {
    const Range owned = even_part(group.elements, shards, shard_rank);
    out.push_back(owned.size());
    int64_t first = 0;
    for (const int place : group.params) {
      const ParamSpec& spec = *specs[static_cast<size_t>(plan.params[static_cast<size_t>(place)])];
      const Range shared{first + spec.shared.begin, first + spec.shared.end};
      if (spec.is_partial) out.push_back(overlap(shared, owned).size());
      first += spec.elements();
    }
  }
  return out;
}

}  // namespace

RankKinds::RankKinds(const Config& config, const Blueprint& blueprint, const Pipeline& pipeline)
    : shape_(mesh_shape(config.parallel)) {
  const int shards = config.parallel.shard;
  std::vector<const ParamSpec*> specs;
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& spec : layer.params) specs.push_back(&spec);
  kinds_.resize(static_cast<size_t>(config.parallel.pp) * static_cast<size_t>(shards));
  for (int stage = 0; stage < config.parallel.pp; ++stage) {
    const GroupPlan plan = make_groups(blueprint, part_of(blueprint, pipeline, stage));
    std::map<Signature, int> known;
    for (int shard = 0; shard < shards; ++shard) {
      Coordinates at{};
      at[static_cast<size_t>(Axis::Pp)] = stage;
      at[static_cast<size_t>(Axis::Shard)] = shard;
      const auto [found, is_new] =
          known.emplace(signature_of(plan, specs, shards, shard), representatives_.size());
      if (is_new) representatives_.push_back(rank_at(shape_, at));
      kinds_[place(at)] = found->second;
    }
  }
}

size_t RankKinds::place(const Coordinates& at) const {
  const auto of = [&](Axis axis) { return static_cast<size_t>(at[static_cast<size_t>(axis)]); };
  return of(Axis::Pp) * static_cast<size_t>(shape_.degree(Axis::Shard)) + of(Axis::Shard);
}

int RankKinds::kind_of(int rank) const {
  return kinds_[place(coordinates_of(shape_, rank))];
}

}  // namespace sextant
