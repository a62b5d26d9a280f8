#pragma once
#include "config/load.h"
#include "config/settings.h"

namespace sextant {

// Origin of a vocabulary that follows the tokenizer of the data.
inline constexpr const char* kTokenizerOrigin = "tokenizer";

// Fills presets and derived values around what was set, and checks the whole (check.h).
ResolvedConfig resolve(const Settings& settings, const LoadOptions& options);

}  // namespace sextant
