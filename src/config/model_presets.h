#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace sextant {

// Published models by name, such as gpt2-124m or llama-8b.
std::optional<ModelConfig> model_preset(std::string_view name);
std::vector<std::string> model_preset_names();

}  // namespace sextant
