#pragma once
#include "config/config.h"

namespace sextant {

// Error(Data) in one line that names the setting unless the directories that a run writes are
// there and can be written in, or can be made: run.out, checkpoint.dir and memory.offload_dir,
// which must be there. Makes nothing.
void check_run_paths(const Config& config);

}  // namespace sextant
