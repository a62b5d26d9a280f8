#pragma once
#include <cstdint>

#include "config/config.h"
#include "tensor/device.h"

namespace sextant {

// The device of a rank. Error(Config) if this build or machine does not have it. Over NCCL, ranks
// on a machine take its GPUs in turn, by LOCAL_RANK or what the launcher has instead; otherwise all
// have the first.
Device run_device(const Config& config, int rank = 0);

// The phantom device that stands for it in a dry run; needs no GPU.
Device phantom_device(const Config& config);

// Ranks of this machine that have the GPU of rank 0: over NCCL one where there is no GPU to count.
int ranks_on_gpu(const Config& config);

// Bytes that a rank may use: run.memory_limit, or an equal share of this machine's memory or of
// what is free on the GPU; 0 if no GPU is there to ask.
int64_t memory_limit(const Config& config);

}  // namespace sextant
