#pragma once
#include "cli/command.h"
#include "config/load.h"

namespace sextant::cli {

// The configuration of `path` ("" for none) and the overrides of the command line; model.hf is read
// where it is asked for.
ResolvedConfig load_settings(Context& context, const std::string& path);

// Error(Config) if --json would list more ranks than a program can be expected to read.
void check_listed_ranks(const Context& context, const Config& config);

}  // namespace sextant::cli
