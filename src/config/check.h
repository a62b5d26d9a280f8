#pragma once
#include "config/load.h"
#include "config/settings.h"

namespace sextant {

// Whether the data is text that becomes tokens byte by byte.
bool is_byte_text(const DataConfig& data);

// Whether the ranks of cp can share a sequence of this model, of which those of tp have whole
// heads.
bool context_works(const Config& config);
// Refuses ranks of cp that cannot share a sequence of this model, naming what could; chooses
// parallel.ulysses where nobody did.
void resolve_context(ResolvedConfig& out, const Settings& settings);

// Chooses parallel.zero where nobody did; refuses a layout that cannot be.
void resolve_parallel(ResolvedConfig& out, const Settings& settings);

// Completes batch.global, micro and accumulation from any two of them (one or none: defaults, with
// at least 2 pp micro-batches for a pipeline where there are samples enough) and notes how the
// batch is cut; refuses three that disagree.
void resolve_batch(ResolvedConfig& out, const Settings& settings);

// Refuses settings that are fine alone but cannot be together. Throws Error(Config).
void check_config(const Config& config, const Settings& settings);

}  // namespace sextant
