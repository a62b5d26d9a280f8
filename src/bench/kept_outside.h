#pragma once
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "tensor/device.h"
#include "train/outside_memory.h"

namespace sextant {

// Measures the table on the first GPU, in a process that has not used its libraries yet: what is in
// use on the GPU before and after the first use of each. Other programs on the GPU count as part of
// the context. A few seconds.
OutsideTable measure_outside(Storage& storage, const Clock& clock);

// The table of this GPU, driver and libraries that a file of `directory` keeps; nothing if there is
// none, or one that is damaged or of others.
std::optional<OutsideTable> kept_outside(Storage& storage, const std::string& directory,
                                         const GpuList& gpus);
// Keeps it. Without a directory nothing is kept.
void keep_outside(Storage& storage, const std::string& directory, const GpuList& gpus,
                  const OutsideTable& table);

}  // namespace sextant
