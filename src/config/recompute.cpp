#include "config/config.h"

namespace sextant {

const char* name_of(Recompute recompute) {
  constexpr const char* kNames[] = {"none", "cheap", "selective", "full"};
  return kNames[static_cast<size_t>(recompute)];
}

}  // namespace sextant
