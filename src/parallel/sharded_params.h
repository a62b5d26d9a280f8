#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mesh/mesh.h"
#include "parallel/param.h"

namespace sextant {

// What the ranks of a shard group divide among themselves.
//   None       nothing: DDP
//   Optimizer  optimizer state: ZeRO-1
//   Gradients  and gradients: ZeRO-2
//   Weights    and weights: ZeRO-3, FSDP
enum class ZeroStage { None, Optimizer, Gradients, Weights };

// The groups of a model: parameters that are reduced, gathered and freed together, stored one
// behind the other in one vector. Each layer uses one group.
struct ParamGroups {
  std::vector<std::vector<size_t>> params;  // of each group, ascending
  std::vector<std::string> names;
  std::vector<size_t> group_of_layer;
  std::vector<bool> reads_in_backward;  // by layer: backward needs the weights, not only gradients
};

enum class Pass { Forward, Backward };

}  // namespace sextant
