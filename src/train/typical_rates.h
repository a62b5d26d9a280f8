#pragma once
#include "config/config.h"
#include "sim/rates.h"

namespace sextant {

// Throughputs of a typical device of a configuration's kind, for simulations whose ratios matter
// and whose seconds do not.
Rates typical_rates(const Config& config);

}  // namespace sextant
