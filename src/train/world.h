#pragma once
#include <functional>

#include "base/clock.h"
#include "base/span_log.h"
#include "comm/communicator.h"
#include "comm/nccl_world.h"
#include "config/config.h"

namespace sextant {

// Ranks of a configuration in this process (transport threads) or on this machine (mpi, nccl): they
// share its cores and its memory.
int local_ranks(const Config& config);

// Whether all ranks are threads of this process: transport threads, and nccl outside a launcher.
bool ranks_share_process(const Config& config);

// Whether ranks may share a GPU over NCCL: the variable of NCCL that allows it, kShareVariable = 1,
// is set.
bool may_share_gpus();

// Error(Config) in one line if this build, machine or launcher cannot run the configuration over
// NCCL. Before the first use of CUDA: sets defaults of variables that ranks which share a GPU need.
void prepare_nccl(const Config& config);

// What this rank asks of NCCL.
NcclOptions nccl_options(const Config& config, int rank);

// Runs f on every rank of this process: all ranks with transport threads, one with mpi, where the
// launcher must have started one process per rank (Error(Config) otherwise); with nccl one of the
// two. Returns when they are done. A rank that throws stops the others; its error is rethrown.
void run_world(const Config& config, const Clock& clock, SpanLog* spans,
               const std::function<void(Communicator&)>& f);

}  // namespace sextant
