#pragma once
#include <string>
#include <vector>

#include "base/range.h"
#include "blueprint/blueprint.h"
#include "schedule/stage_cost.h"

namespace sextant {

// FLOPs per token in a layer: forward, input gradient, weight gradient. The embedding adds up rows,
// the head is a large GEMM: both count.
struct LayerCost {
  double forward = 0, input = 0, weight = 0;
  double total() const { return forward + input + weight; }
};
LayerCost estimate_cost(const Blueprint& blueprint, size_t layer);
// Sum over a stage's layers, in units of the forward of a transformer block.
StageCost stage_cost(const Blueprint& blueprint, const Range& stage);

// The layers of each of `stages` stages: whole transformer blocks in order, the embedding in the
// first stage, the head in the last. `split` gives the number of blocks per stage:
//   "even"      the same number
//   "balanced"  minimises the costliest stage; the first and the last stage may then have no blocks
//               besides embedding and head
//   "3,2,2,1"   as listed
// Error(Config) for an impossible split; the message says what would work.
std::vector<Range> split_stages(const Blueprint& blueprint, int stages, const std::string& split);

// Blocks per stage for the best balance; `costs` of embedding, blocks and head in order. Minimises
// the costliest stage, then the sum of squares of the stages' costs.
std::vector<int> balance(const std::vector<double>& costs, int stages);

}  // namespace sextant
