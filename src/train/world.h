#pragma once
#include <functional>

#include "base/clock.h"
#include "base/span_log.h"
#include "comm/communicator.h"
#include "config/config.h"

namespace sextant {

// Ranks of a configuration that run in this process (transport threads) or on this machine (mpi):
// those that share its cores and its memory.
int local_ranks(const Config& config);

// f on every rank of the run that is of this process: all of them with transport threads, one with
// mpi, where the launcher must have started as many processes as the layout has ranks
// (Error(Config) otherwise). Returns when they are done. A rank that throws stops the others; its
// error is thrown on.
void run_world(const Config& config, const Clock& clock, SpanLog* spans,
               const std::function<void(Communicator&)>& f);

}  // namespace sextant
