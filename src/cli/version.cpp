#include "cli/version.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace sextant::cli {

// SXT_VERSION and SXT_FEATURES come from the build.
std::string version_text() {
  return "sextant " SXT_VERSION "\n" SXT_FEATURES;
}

nlohmann::ordered_json version_json() {
  const std::string text = SXT_FEATURES;
  const size_t colon = text.find(": ");
  constexpr std::string_view kBuilt = "built with ";
  nlohmann::ordered_json json = {{"version", SXT_VERSION},
                                 {"compiler", text.substr(kBuilt.size(), colon - kBuilt.size())},
                                 {"features", nlohmann::ordered_json::array()}};
  for (size_t at = colon + 2; at < text.size();) {
    const size_t comma = std::min(text.find(", ", at), text.size());
    json["features"].push_back(text.substr(at, comma - at));
    at = comma + 2;
  }
  return json;
}

}  // namespace sextant::cli
