#pragma once
#include "base/log.h"
#include "config/config.h"
#include "data/loader.h"

namespace sextant {

// Opens the data of a configuration, showing progress.
Loader open_data(const Config& config, Storage& storage, Log& log);

}  // namespace sextant
