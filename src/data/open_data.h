#pragma once
#include <functional>

#include "base/log.h"
#include "config/config.h"
#include "data/loader.h"

namespace sextant {

// Opens the data of a configuration, showing progress. `on_tokenizer`: see LoaderSettings.
Loader open_data(const Config& config, Storage& storage, Log& log,
                 std::function<void(const Loader&)> on_tokenizer = {});

}  // namespace sextant
