#pragma once
#include "blueprint/memory_layers.h"

namespace sextant {

// What attention allocates and frees between the projection and its output, in the order of its
// own program: AttentionCore of the model.

// Finds qkv; leaves what backward needs of it, the log-sum-exps and attended.
void core_forward(MemoryWalk& walk, const ActivationSizes& sizes);
// Finds these and the gradient of attended; leaves attended and the gradient of qkv.
void core_backward(MemoryWalk& walk, const ActivationSizes& sizes);

}  // namespace sextant
