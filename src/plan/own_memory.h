#pragma once
#include "plan/memory.h"

namespace sextant {

// Memory of `train`, in closed form: what its dry run counts exactly, within a few percent
// (train/plan_dry_run_test.cpp). It differs from the published programs in what is sharded (over
// `shard` alone, not over cp), in its gradient buckets, in logits that their gradients overwrite,
// and in what the halves of a split backward hold.
MemoryUse own_memory(const Case& asked, const Constants& constants, const LayerMemory& layer,
                     const Parameters& counts, const ScheduleHeld& held);

// Bytes that arenas may take of a GPU: what is usable without the reserve for the libraries.
double arena_limit(const Hardware& hardware, const Constants& constants);

// Logits of a micro-batch; where they are made by columns, those of one turn.
double own_logit_bytes(const Case& asked);

// What a layer keeps between the halves of its backward beyond what a forward keeps: the gradients
// that weights are multiplied with are gathered over tp; a head norm's input is gone.
double own_half_bytes(const Case& asked);

// Bytes of an activation.
double value_bytes(const Case& asked);

// Parameters on a pipeline rank with so many layers.
struct RankParameters {
  double dense = 0, experts = 0;
};
RankParameters parameters_on(const Case& asked, const Parameters& counts, double layers, bool first,
                             bool last);

}  // namespace sextant
