#pragma once
#include "program/rank_part.h"

namespace sextant {

// The pipeline of a configuration: its stages, and every rank's schedule for `micros` micro-batches
// per step, with sends and receives. Searched schedules get estimated times (program/stages.h). A
// schedule file is validated; its messages, gathers and reductions are replaced by our own.
// Error(Config) for an impossible request; the message says what would work.
Pipeline make_pipeline(const Blueprint& blueprint, const ParallelConfig& parallel, int micros);

// Forward only, with the same stages on the same ranks.
Pipeline forward_only(const Pipeline& pipeline, int micros);

}  // namespace sextant
