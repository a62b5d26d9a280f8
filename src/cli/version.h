#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sextant::cli {

// "sextant 0.1.0" and what this build can do, one line each.
std::string version_text();
// The same: version, compiler, features[].
nlohmann::ordered_json version_json();

}  // namespace sextant::cli
