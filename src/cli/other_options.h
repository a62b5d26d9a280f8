#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace sextant::cli {

// Names that other programs have for options of our commands, for suggestions.

// The one of `own` (without dashes) that others call `word`, such as "tokens" for max_new_tokens;
// "_" is "-". "" if none.
std::string option_meant_by(std::string_view word, const std::vector<std::string>& own);

// The one of `positionals` that others give as the option `word`, such as "checkpoint" for model;
// "" if none.
std::string argument_meant_by(std::string_view word, const std::vector<std::string>& positionals);

}  // namespace sextant::cli
