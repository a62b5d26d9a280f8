#pragma once
#include "blueprint/memory_walk.h"
#include "blueprint/rank_program.h"

namespace sextant {

// Sizes of the activations of one micro-batch, in bytes.
struct ActivationSizes {
  ActivationSizes(const Blueprint& blueprint, const MemoryQuestion& question);

  int64_t hidden;      // what passes from layer to layer
  int64_t all_hidden;  // the same of all tokens, when ranks that share the layers have some each
  int64_t statistics, qkv, head_statistics, attended, lse, ffn, wide, token_value, logits;
  int64_t ids;       // of the micro-batch: tokens, targets, positions and who sees what
  int64_t core_qkv;  // qkv as the attention core has it: perhaps with key-value heads repeated
  int64_t kv;        // its keys and values
  bool exchanges;    // heads for tokens, before and after it
  ContextPart context;
  int64_t ranks;  // that share the layers
  bool head_norm, keep_logits, gated;
  bool dropout;     // of hidden values
  bool own_tokens;  // of those ranks each has some of the tokens between common works
  bool in_pieces;   // and common work is cut by the rank whose tokens it is on
};

// What a layer allocates and frees, in the order of its own program.
//   Forward   leaves y and what the layer keeps; x is kept by whoever made it
//   Input     leaves dx, frees x, keeps dy and what the weight half needs
//   Weight    frees the rest, dy included
//   Backward  both halves
void walk_layer(MemoryWalk& walk, const ActivationSizes& sizes, LayerKind kind, Pass pass);

}  // namespace sextant
