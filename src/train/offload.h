#pragma once
#include <memory>

#include "tensor/host_arena.h"
#include "train/preflight.h"

namespace sextant {

// Host memory of a rank's offloaded tensors, as planned; null without any. On a phantom device at
// the addresses of `phantom_plan`, or recorded if that is null.
std::unique_ptr<HostArena> make_offload(const Config& config,
                                        std::shared_ptr<const ArenaPlan> phantom_plan,
                                        const Stream& stream, const Preflight& preflight, int rank);

}  // namespace sextant
