#pragma once
#include <string>

#include "config/config.h"

namespace sextant {

// A layout in one line, for tables, reports and checkpoints: "pp4 1f1b x shard2 zero 2", "1 rank".
// Axes of degree 1 are left out; options of an axis follow its degree.
std::string layout_text(const ParallelConfig& parallel);
// The same with gradient accumulation above 1: "dp4, accumulation 2".
std::string layout_text(const Config& config);

}  // namespace sextant
