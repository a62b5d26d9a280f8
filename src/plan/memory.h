#pragma once
#include "plan/case.h"
#include "plan/constants.h"
#include "plan/held_passes.h"

namespace sextant {

// Bytes of the fullest rank.
struct MemoryUse {
  double weights = 0, gradients = 0, optimizer = 0;
  double gathered = 0;     // ZeRO-3: whole layers while they are used
  double activations = 0;  // of all micro-batches in flight
  double logits = 0;
  double fragments = 0;  // lost between allocations
  double outside = 0;    // context, communication buffers, workspaces
  int rank = 0;          // pipeline rank
  double allocated() const {
    return weights + gradients + optimizer + gathered + activations + logits;
  }
  double total() const { return allocated() + fragments + outside; }
};

// What one micro-batch leaves on a rank; independent of pp, dp, shard and schedule.
struct LayerMemory {
  double kept = 0;     // of a layer, until its backward
  double whole = 0;    // what it would be without recomputation
  double half = 0;     // of `train`, between the halves of its backward
  double working = 0;  // of a layer while it is recomputed
  double scores = 0;   // of unfused attention in that layer, with their gradients
  double logits = 0;
};
LayerMemory layer_memory(const Case& asked);

MemoryUse memory_use(const Case& asked, const Constants& constants);
// The same with parts that were computed before. `held`: of the schedule, which the memory of
// `train` needs.
MemoryUse memory_use(const Case& asked, const Constants& constants, const LayerMemory& layer,
                     const Parameters& counts, const ScheduleHeld& held);

// Bytes that a program can have: an A100 of 80 GiB offers 79.2.
double usable_memory(const Hardware& hardware);
bool fits(const Case& asked, const MemoryUse& use);

// Bytes of state a parameter takes on each of `shard` ranks at a ZeRO stage: weights and gradients
// in 16 bits, fp32 master weights, both moments of `moment_bytes` each.
double state_bytes_per_parameter(int zero, double shard, double moment_bytes);

// Bytes that one layer keeps of one micro-batch for its backward.
double kept_bytes(const Case& asked, bool experts);

// Stages whose parameters a rank holds, in units of its share of the layers: DualPipe runs two.
double held_stages(const Layout& layout);
// Ranks that share the state of an expert at ZeRO 1 and above.
double expert_shards(const Layout& layout);

// Micro-batches in flight on a pipeline rank at most, in units of its own layers.
double in_flight(const Layout& layout, int64_t micros, int64_t rank);

}  // namespace sextant
