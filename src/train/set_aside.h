#pragma once
#include <span>
#include <string>

#include "base/storage.h"

namespace sextant {

// Moves those of `names` that are in `directory` to a new previous-1, previous-2, ... in it, so
// that nothing of an earlier run is written over. Anything else there is somebody else's and stays.
void set_aside(Storage& storage, const std::string& directory, std::span<const std::string> names);

// The same for the checkpoints in a directory of checkpoints.
void set_aside_checkpoints(Storage& storage, const std::string& directory);

}  // namespace sextant
