#pragma once
#include <functional>
#include <string>
#include <vector>

namespace sextant::cli {

// What completion offers for an option (Option::values).
using Values = std::function<std::vector<std::string>(const std::string& word)>;

Values any_of_these(std::vector<std::string> names);
Values lists_of(std::vector<std::string> names);  // "a,b,c"
Values preset_values();
Values gpu_values();      // "H100"
Values cluster_values();  // "64xH100"

}  // namespace sextant::cli
