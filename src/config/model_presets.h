#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace sextant {

// Published models by name, such as gpt2-124m or llama-8b, with their published sizes; `seq` is the
// length that most of their training used. Small ones named tiny train in seconds.
std::optional<ModelConfig> model_preset(std::string_view name);
std::vector<std::string> model_preset_names();  // small models first, by family

}  // namespace sextant
