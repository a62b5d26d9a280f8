#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Names that other programs have for our settings and models, for suggestions.

// The key for which others have this name, such as "optim.lr" for learning_rate; "" if none. As
// a rule only the last part of a name counts; "-" is "_".
std::string_view key_for_other_name(std::string_view name);

// The one of `ours` for which others have this name, such as "cuda" for gpu; "" if none.
std::string_view value_for_other_name(std::string_view name, const std::vector<std::string>& ours);

// The preset of a published model, such as "llama-8b" for meta-llama/Llama-3.1-8B; "" if none.
std::string preset_for_other_name(std::string_view name);

// ", did you mean 'llama-8b'?" or ""; by these names and those of our presets.
std::string did_you_mean_preset(std::string_view name);

}  // namespace sextant
