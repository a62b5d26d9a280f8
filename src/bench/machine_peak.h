#pragma once
#include "base/log.h"
#include "base/storage.h"
#include "config/config.h"

namespace sextant {

// Dense FLOP/s of all ranks of a configuration together, for MFU: run.peak_flops if it is set. On
// the CPU it is measured, as if each rank were alone on its share of the cores. Of the GPU that all
// ranks share it is the data sheet's for the type of precision.compute; 0 if that is not known.
double machine_peak(const Config& config);
// The same with the peak of the CPU that was measured first (kept_peak.h).
double kept_machine_peak(const Config& config, Storage& storage, Log& log);
// Measures it again and keeps it: for a run that was faster than the kept one.
void renew_machine_peak(const Config& config, Storage& storage, Log& log);

}  // namespace sextant
