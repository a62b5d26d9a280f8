#pragma once
#include "base/budget.h"
#include "config/config.h"

namespace sextant {

// What rehearsing a run may take, over all kinds of its ranks: a pre-flight longer than a user of
// `train --dry-run` should wait for is refused, with Error(Config), while it runs. The text names
// the setting that makes it long.

// In allocations and operations of the phantom device; `kinds` run on all cores.
Budget rehearsal_budget(const Config& config, int kinds);
// In bytes of the traces of `ranks` ranks; `most`: other than the usual limit.
Budget trace_budget(const Config& config, int ranks, int64_t most = 0);

}  // namespace sextant
