#pragma once
#include <cstdint>
#include <vector>

#include "blueprint/blueprint.h"

namespace sextant {

// Which activations a layer keeps from forward to backward. Activation recomputation
// (Pass::Recompute) restores the others directly before backward.
//   All      all
//   Outside  all but those of the attention core: its output and log-sum-exp
//   Input    only the layer's input
//   Nothing  none: recomputing the previous layer gives the input
enum class Keep : uint8_t { All, Outside, Input, Nothing };

// By layer of Blueprint::layers, as memory.recompute says. Attention and MLP of a block are
// recomputed together.
std::vector<Keep> keeps_of(const Blueprint& blueprint, Recompute recompute);

}  // namespace sextant
