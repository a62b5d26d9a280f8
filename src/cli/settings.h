#pragma once
#include <span>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "config/load.h"

namespace sextant::cli {

// What a run begins with.
struct RunStart {
  std::string from;      // a checkpoint, or ""
  bool resumes = false;  // with a checkpoint of its own, where there is one
};

// The configuration of `path` ("" for none) and the overrides of the command line; model.hf and the
// vocabulary of the data are read where they are asked for. Without model.preset and model.hf the
// model is that of the checkpoint which the run starts with, and so is the tokenizer of its text. A
// setting of [model] that differs from the checkpoint `from` is Error(Data).
ResolvedConfig load_settings(Context& context, const std::string& path, const RunStart& start = {});

// Error(Usage) for an override that has no effect in `command`, which runs on one rank without
// training. `used`: keys, and beginnings of keys such as "data.".
void check_one_rank_settings(const Context& context, const std::string& command,
                             std::span<const std::string_view> used);

// Error(Config) if --json would list more ranks than a program can be expected to read.
void check_listed_ranks(const Context& context, const Config& config);

}  // namespace sextant::cli
