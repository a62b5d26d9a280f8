#pragma once
#include <string>

namespace sextant {

// Where programs of this user may keep what they can make again: $XDG_CACHE_HOME/sextant, else
// $HOME/.cache/sextant; "" where neither is set.
std::string cache_directory();

}  // namespace sextant
