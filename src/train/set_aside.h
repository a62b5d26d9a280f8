#pragma once
#include <span>
#include <string>

#include "base/storage.h"

namespace sextant {

// Moves those of `names` that exist in `directory` to a new previous-1, previous-2, ... in it, so
// that nothing of an earlier run is overwritten. Other files and the locks of directories stay. The
// new directory, or "" when nothing was moved.
std::string set_aside(Storage& storage, const std::string& directory,
                      std::span<const std::string> names);

// The same for all checkpoints in a checkpoint directory.
std::string set_aside_checkpoints(Storage& storage, const std::string& directory);

}  // namespace sextant
