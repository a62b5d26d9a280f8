#pragma once
#include "program/rank_part.h"

namespace sextant {

// The pipeline that a configuration asks for: its stages, and for so many micro-batches a step the
// order of every rank, with messages. Schedules that are made for given times get estimated ones
// (blueprint/stages.h). A file of actions is checked; messages, gathers and reductions in it are
// left out, as the run places its own. Error(Config) for what cannot be, with what would work.
Pipeline make_pipeline(const Blueprint& blueprint, const ParallelConfig& parallel, int micros);

// The same stages on the same ranks, forward only.
Pipeline forward_only(const Pipeline& pipeline, int micros);

}  // namespace sextant
