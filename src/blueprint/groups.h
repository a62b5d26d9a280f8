#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/blueprint.h"

namespace sextant {

// Parameters that are reduced, gathered and freed together: the unit of data parallelism. Each
// layer uses exactly one group. A group is the embedding, one transformer block, or the head; when
// the head is tied, its norm joins the embedding's group, so that a weight used twice has one home.
struct GroupSpec {
  std::string name;         // "embedding", "layers.3", "head"
  std::vector<int> params;  // numbers in the blueprint's order of parameters, ascending
  int64_t elements = 0;     // stored: padding included
};

struct GroupPlan {
  std::vector<GroupSpec> groups;    // by first use in forward
  std::vector<int> group_of_layer;  // of Blueprint::layers
};

GroupPlan make_groups(const Blueprint& blueprint);

// Whether backward of this kind of layer reads its weights: all but the embedding do.
bool reads_weights_in_backward(LayerKind kind);

}  // namespace sextant
