#pragma once
#include <string>

#include "base/dtype.h"
#include "base/log.h"
#include "base/storage.h"

namespace sextant {

// fma_peak (machine.h), measured once for a processor and kept in a file of `directory`, so that
// runs on one machine have one peak. A file that is damaged, or of another processor, number of
// cores or build, is not used: the peak is measured and the file written again. Without a directory
// it is measured each time.
double kept_fma_peak(Storage& storage, const std::string& directory, int threads, DType operands,
                     Log& log);

// Measures it now and keeps it.
double measure_fma_peak(Storage& storage, const std::string& directory, int threads, DType operands,
                        Log& log);

}  // namespace sextant
