#include "base/cache_directory.h"

#include <cstdlib>

#include "base/storage.h"

namespace sextant {

std::string cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return join_path(cache, "sextant");
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return join_path(join_path(home, ".cache"), "sextant");
  return "";
}

}  // namespace sextant
