#pragma once
#include <vector>

#include "bench/picture.h"

namespace sextant {

// Runs each collective that moves data, and messages, on four ranks (threads) with labelled
// elements, and draws each rank's data before and after. The same text on every run.
std::vector<Picture> draw_collectives();

}  // namespace sextant
