#pragma once
#include "cli/command.h"
#include "config/load.h"

namespace sextant::cli {

// The configuration of `path` ("" for none) and the overrides of the command line; model.hf is read
// where it is asked for.
ResolvedConfig load_settings(Context& context, const std::string& path);

}  // namespace sextant::cli
