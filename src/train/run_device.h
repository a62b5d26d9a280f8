#pragma once
#include <cstdint>

#include "config/config.h"
#include "tensor/device.h"

namespace sextant {

// The device of a configuration's ranks. Error(Config) if this build or machine does not have it.
Device run_device(const Config& config);

// The phantom device that stands for it in a dry run; needs no GPU.
Device phantom_device(const Config& config);

// Bytes that a rank may use: run.memory_limit, or an equal share of this machine's memory or of
// what is free on the GPU; 0 if no GPU is there to ask.
int64_t memory_limit(const Config& config);

}  // namespace sextant
