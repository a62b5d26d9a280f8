#pragma once
#include "config/load.h"
#include "config/settings.h"

namespace sextant {

// Fills presets and derived values around what was set, and checks the whole (check.h).
ResolvedConfig resolve(const Settings& settings, const LoadOptions& options);

}  // namespace sextant
