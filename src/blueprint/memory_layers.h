#pragma once
#include "blueprint/memory_walk.h"

namespace sextant {

// Sizes of the activations of one micro-batch, in bytes.
struct ActivationSizes {
  ActivationSizes(const Blueprint& blueprint, const MemoryQuestion& question);

  int64_t hidden, statistics, qkv, head_statistics, attended, lse, ffn, wide, token_value, logits,
      ids;
  bool head_norm, keep_logits;
};

// What a layer allocates and frees, in the order of its own program. Forward leaves y and what the
// layer keeps; backward leaves dx and frees the rest, y and dy included.
void walk_forward(MemoryWalk& walk, const ActivationSizes& sizes, LayerKind kind);
void walk_backward(MemoryWalk& walk, const ActivationSizes& sizes, LayerKind kind);

}  // namespace sextant
