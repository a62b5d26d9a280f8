#pragma once
#include "blueprint/blueprint.h"
#include "config/config.h"

namespace sextant {

// Throws Error(Config) for a fault.inject that could never strike in this layout, which would hide
// a missing check.
void check_injection(const Config& config, const Blueprint& blueprint);

}  // namespace sextant
