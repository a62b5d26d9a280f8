#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "blueprint/blueprint.h"
#include "program/rank_part.h"

namespace sextant {

// Parameters that are reduced, gathered and freed together: the unit of data parallelism. Each
// layer uses exactly one group. A group is the embedding, one transformer block, or the head; when
// the head is tied, its norm joins the embedding's group, so that a weight used twice has one home.
// A rank that holds any layer of a group holds the whole group.
struct GroupSpec {
  std::string name;            // "embedding", "layers.3", "head"
  std::vector<int> params;     // places in GroupPlan::params, ascending
  int64_t elements = 0;        // stored: padding included
  int number = 0;              // among the groups of the whole model
  bool is_duplicated = false;  // another rank of the pipeline holds it too
};

struct GroupPlan {
  std::vector<GroupSpec> groups;        // in the model's order
  std::vector<int> group_of_layer;      // of RankPart::layers
  std::vector<bool> reads_in_backward;  // by layer: backward needs the weights, not only gradients
  std::vector<int> params;              // of this rank: numbers in the blueprint's order, ascending
};

// Elements that shard rank `shard_rank` of `shards` owns whose gradients are terms of a sum over so
// many ranks that share the layers.
std::map<int, int64_t> partial_elements(const Blueprint& blueprint, const GroupPlan& plan,
                                        int shards, int shard_rank);

GroupPlan make_groups(const Blueprint& blueprint);
GroupPlan make_groups(const Blueprint& blueprint, const RankPart& part);

}  // namespace sextant
