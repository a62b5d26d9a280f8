#pragma once
#include "fault/inject.h"
#include "optim/optimizer.h"
#include "parallel/sharded_params.h"

namespace sextant {

// An optimizer step with such a fault: typical mistakes about slices that begin inside a tensor,
// a step made twice, and masters that stay behind. Other kinds change nothing.
void mistake_update(Stream& stream, InjectionKind kind, ShardedParams& params,
                    Optimizer& optimizer);

}  // namespace sextant
