#pragma once
#include <vector>

#include "bench/picture.h"

namespace sextant {

// A matrix of 4096 x 4096 cut in two columns, and the one behind it cut in two rows, with the
// shapes that two ranks which share a layer have by the blueprint.
std::vector<Picture> draw_matrices();

}  // namespace sextant
