#pragma once
#include <string>

#include "data/loader.h"
#include "train/run.h"

namespace sextant {

// What a run reads before its first step: the checkpoint it goes on from, the weights it starts
// from, and data.

// The checkpoint to go on from, or "".
std::string resume_point(const Config& config, const RunOptions& options,
                         const RunContext& context);

// The checkpoint or Hugging Face directory whose weights a new run starts from, or "".
std::string source_of(const RunOptions& options, const RunContext& context);

// Data of another tokenizer than that of the weights is refused before its ids are.
Loader open_run_data(const Config& config, const RunOptions& options, const RunContext& context);

// What a run starts from is there, in a Hugging Face directory with all its weights.
void check_source(const Config& config, const RunOptions& options, const RunContext& context);

// What a run reads is there and can be read; text is not tokenized for this.
void check_inputs(const Config& config, const RunOptions& options, const RunContext& context);

}  // namespace sextant
