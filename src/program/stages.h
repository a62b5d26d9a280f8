#pragma once
#include <string>
#include <vector>

#include "base/range.h"
#include "blueprint/blueprint.h"
#include "schedule/stage_cost.h"

namespace sextant {

// Floating-point operations of one token in a layer: forward, and the two halves of backward. An
// embedding adds up rows, a head is a large matrix: both count.
struct LayerCost {
  double forward = 0, input = 0, weight = 0;
  double total() const { return forward + input + weight; }
};
LayerCost estimate_cost(const Blueprint& blueprint, size_t layer);
// Of a stage: the sum over its layers, in units in which a transformer block's forward is 1.
StageCost stage_cost(const Blueprint& blueprint, const Range& stage);

// The layers of each of `stages` stages: whole transformer blocks in order, the embedding before
// the first, the head behind the last. How many blocks each has is asked for by `split`:
//   "even"      the same number
//   "balanced"  so that the costliest stage costs the least; the first and the last may then have
//               none besides embedding and head
//   "3,2,2,1"   as many as listed
// Error(Config) for what cannot be, with what would work. No layer is ever left out.
std::vector<Range> split_stages(const Blueprint& blueprint, int stages, const std::string& split);

// Blocks of each stage when stages are to cost the same: `costs` of embedding, blocks and head in
// order. The costliest stage is as cheap as can be, and among such splits the squares of the
// stages' costs add up to the least.
std::vector<int> balance(const std::vector<double>& costs, int stages);

}  // namespace sextant
