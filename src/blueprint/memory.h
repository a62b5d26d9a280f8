#pragma once
#include <cstdint>

#include "blueprint/blueprint.h"

namespace sextant {

// What decides how many bytes a rank allocates.
struct MemoryQuestion {
  int64_t micro = 1;  // sequences in a micro-batch
  int64_t seq = 0;
  int64_t element_size = 4;    // bytes of weights, gradients and activations
  int64_t moments = 2;         // optimizer tensors per parameter: AdamW 2, SGD 0 or 1
  int64_t moment_size = 4;     // bytes of one of their elements
  int64_t kernel_scratch = 0;  // Stream::scratch_bytes of the rank's threads
  LogitsPolicy logits = LogitsPolicy::Keep;
  int64_t logits_chunk = 0;  // Head::kChunk
};

// Peak bytes of each category in a training step, counted as the arena counts them. The peak of the
// sum is the sum of these: all but the activations stay as they are through a step.
struct MemoryEstimate {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  int64_t total() const { return weights + gradients + optimizer + activations + workspace; }
};

// Walks the layers forward and back in program order, adding what each keeps and frees.
MemoryEstimate predict_memory(const Blueprint& blueprint, const MemoryQuestion& question);

}  // namespace sextant
