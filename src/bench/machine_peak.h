#pragma once
#include "config/config.h"

namespace sextant {

// Dense FLOP/s of all ranks of a configuration together, for MFU: run.peak_flops if it is set. On
// the CPU it is measured, as if each rank were alone on its share of the cores. Of the GPU that all
// ranks share it is the data sheet's for the type of precision.compute; 0 if that is not known.
double machine_peak(const Config& config);

}  // namespace sextant
