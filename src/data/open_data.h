#pragma once
#include "base/log.h"
#include "config/config.h"
#include "data/loader.h"

namespace sextant {

// The data of a configuration, with progress while it is made ready.
Loader open_data(const Config& config, Storage& storage, Log& log);

}  // namespace sextant
