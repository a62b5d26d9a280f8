#include "cli/version.h"

namespace sextant::cli {

// SXT_VERSION and SXT_FEATURES come from the build.
std::string version_text() {
  return "sextant " SXT_VERSION "\n" SXT_FEATURES;
}

}  // namespace sextant::cli
