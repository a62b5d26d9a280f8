#include "cli/values.h"

#include <utility>

#include "config/model_presets.h"
#include "plan/hardware.h"

namespace sextant::cli {
namespace {

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const Hardware& hardware : known_hardware()) names.push_back(hardware.name);
  return names;
}

std::vector<std::string> after(const std::string& prefix, std::vector<std::string> names) {
  for (std::string& name : names) name.insert(0, prefix);
  return names;
}

}  // namespace

Values any_of_these(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string&) { return names; };
}

Values lists_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& word) {
    return after(word.substr(0, word.rfind(',') + 1), names);
  };
}

Values preset_values() {
  return [](const std::string&) { return model_preset_names(); };
}

Values gpu_values() {
  return [](const std::string&) { return gpu_names(); };
}

Values cluster_values() {
  return [](const std::string& word) {
    const size_t digits = word.find_first_not_of("0123456789");
    const std::string count = word.substr(0, digits);
    return count.empty() ? gpu_names() : after(count + "x", gpu_names());
  };
}

}  // namespace sextant::cli
