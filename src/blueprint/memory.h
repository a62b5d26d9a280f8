#pragma once
#include <cstdint>

#include "blueprint/context_part.h"
#include "blueprint/rank_part.h"
#include "trace/memory_estimate.h"

namespace sextant {

// What decides how many bytes a rank allocates.
struct MemoryQuestion {
  int64_t micro = 1;  // sequences in a micro-batch
  int64_t seq = 0;    // tokens of a sequence, of which the rank has a part
  ContextPart context = {};
  int64_t accumulation = 1;    // micro-batches in a step
  int64_t element_size = 4;    // bytes of weights, gradients and activations
  int64_t moments = 2;         // optimizer tensors per parameter: AdamW 2, SGD 0 or 1
  int64_t moment_size = 4;     // bytes of one of their elements
  bool backup = false;         // a second copy of owned weights and moments, to go back to
  int64_t kernel_scratch = 0;  // Stream::scratch_bytes of the rank's threads
  LogitsPolicy logits = LogitsPolicy::Keep;
  int64_t logits_chunk = 0;  // Head::kChunk
  int zero = 0;              // what `shard` ranks divide: see ParallelConfig
  int shard = 1;             // ranks that divide it; 1 acts as zero 0
  int shard_rank = 0;        // which of them is asked about
  // Null: a model on one rank, micro-batch after micro-batch. Must outlive the question.
  const Pipeline* pipeline = nullptr;
  int pipeline_rank = 0;  // which of its ranks is asked about
};

// Walks the rank's actions layer by layer in program order, adding what each keeps and frees.
MemoryEstimate predict_memory(const Blueprint& blueprint, const MemoryQuestion& question);

// What a rank holds from step to step, between steps: its part of the state.
MemoryEstimate resident_memory(const Blueprint& blueprint, const MemoryQuestion& question);

}  // namespace sextant
