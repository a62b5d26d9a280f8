#pragma once
#include <cstdint>
#include <vector>

#include "blueprint/blueprint.h"

namespace sextant {

// What a layer keeps from its forward pass until its backward pass. What it does not keep is
// computed once more right before that (Pass::Recompute).
//   All      everything
//   Outside  everything but what the attention core makes: attended values and log-sum-exp
//   Input    its input alone
//   Nothing  not even that: recomputing the layer before gives it
enum class Keep : uint8_t { All, Outside, Input, Nothing };

// Of each of Blueprint::layers, as memory.recompute says. A block of attention and MLP is
// recomputed as one.
std::vector<Keep> keeps_of(const Blueprint& blueprint, Recompute recompute);

}  // namespace sextant
