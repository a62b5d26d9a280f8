#pragma once
#include "cli/command.h"
#include "config/load.h"

namespace sextant::cli {

// The configuration of `path` ("" for none) and the overrides of the command line; model.hf and the
// vocabulary of the data are read where they are asked for. `from`: a checkpoint whose model and
// tokenizer it takes, or "". A setting of [model] that differs from it is Error(Data).
ResolvedConfig load_settings(Context& context, const std::string& path,
                             const std::string& from = "");

// Error(Usage) for an override that has no effect in `command`, which runs on one rank without
// training.
void check_one_rank_settings(const Context& context, const std::string& command);

// Error(Config) if --json would list more ranks than a program can be expected to read.
void check_listed_ranks(const Context& context, const Config& config);

}  // namespace sextant::cli
