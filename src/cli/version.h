#pragma once
#include <string>

namespace sextant::cli {

// "sextant 0.1.0" and what this build can do, one line each.
std::string version_text();

}  // namespace sextant::cli
