#pragma once
#include <functional>

#include "base/clock.h"
#include "base/span_log.h"
#include "comm/communicator.h"
#include "config/config.h"

namespace sextant {

// Ranks of a configuration in this process (transport threads) or on this machine (mpi): they share
// its cores and its memory.
int local_ranks(const Config& config);

// Runs f on every rank of this process: all ranks with transport threads, one with mpi, where the
// launcher must have started one process per rank (Error(Config) otherwise). Returns when they are
// done. A rank that throws stops the others; its error is rethrown.
void run_world(const Config& config, const Clock& clock, SpanLog* spans,
               const std::function<void(Communicator&)>& f);

}  // namespace sextant
