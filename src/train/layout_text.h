#pragma once
#include <string>

#include "config/config.h"

namespace sextant {

// A layout in one line, for tables, reports and checkpoints: "pp4 1f1b x shard2 zero 2", "1 rank".
// An axis of degree 1 is left out; what belongs to an axis follows its degree.
std::string layout_text(const ParallelConfig& parallel);
// The same with how often a data rank accumulates, above once: "dp4, accumulation 2".
std::string layout_text(const Config& config);

}  // namespace sextant
