#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "blueprint/blueprint.h"
#include "program/rank_part.h"

namespace sextant {

// Parameters that are reduced, gathered and freed together: the unit of data parallelism (an FSDP
// unit). Each layer uses one group: the embedding, one transformer block, or the head; with expert
// parallelism also the group of its experts, whose replicas are other ranks. With a tied embedding
// the head's norm joins the embedding's group, so that the shared weight is in one group. A rank
// that holds any layer of a group holds the whole group.
struct GroupSpec {
  std::string name;            // "embedding", "layers.3", "layers.3.experts", "head"
  std::vector<int> params;     // indices in GroupPlan::params, ascending
  int64_t elements = 0;        // stored, with padding
  int number = 0;              // index among the groups of the whole model
  bool is_duplicated = false;  // another pipeline rank holds it too
  bool is_expert = false;      // experts of a layer, with expert parallelism
};

struct GroupPlan {
  std::vector<GroupSpec> groups;        // in the model's order
  std::vector<int> group_of_layer;      // by layer of RankPart::layers
  std::vector<int> experts_of_layer;    // by layer: the group of its experts, or -1; may be empty
  std::vector<bool> reads_in_backward;  // by layer: backward reads the weights
  std::vector<int> params;              // of this rank: indices in the blueprint's order, ascending

  // f(group) for each group that a layer uses.
  template <class F>
  void for_groups_of(size_t layer, F&& f) const {
    f(group_of_layer[layer]);
    if (!experts_of_layer.empty() && experts_of_layer[layer] >= 0) f(experts_of_layer[layer]);
  }
  bool uses(size_t layer, int group) const {
    return group_of_layer[layer] == group ||
           (!experts_of_layer.empty() && experts_of_layer[layer] == group);
  }
};

// Elements owned by shard `shard_rank` of `shards`, by the number of tensor parallel ranks over
// which their gradients must be summed.
std::map<int, int64_t> partial_elements(const Blueprint& blueprint, const GroupPlan& plan,
                                        int shards, int shard_rank);

GroupPlan make_groups(const Blueprint& blueprint);
GroupPlan make_groups(const Blueprint& blueprint, const RankPart& part);

}  // namespace sextant
