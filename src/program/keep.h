#pragma once
#include <cstdint>
#include <vector>

#include "base/range.h"
#include "blueprint/blueprint.h"

namespace sextant {

// Which activations a layer keeps from forward to backward. Activation recomputation
// (Pass::Recompute) restores the others directly before backward.
//   All       all
//   Products  all but norm outputs and the product of SwiGLU, which cost no matrix product
//   Outside   all but those of the attention core: its output and log-sum-exp
//   Input     only the layer's input
//   Nothing   none: recomputing the previous layer gives the input
enum class Keep : uint8_t { All, Products, Outside, Input, Nothing };

// By layer of Blueprint::layers, as memory.recompute says. Attention and MLP of a block are
// recomputed together.
std::vector<Keep> keeps_of(const Blueprint& blueprint, Recompute recompute);
// Only of the first memory.recompute_layers blocks of each stage, if that is not 0.
std::vector<Keep> keeps_of(const Blueprint& blueprint, const std::vector<Range>& stages,
                           const MemoryConfig& memory);

}  // namespace sextant
