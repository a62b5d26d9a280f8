#pragma once
#include <vector>

#include "bench/picture.h"

namespace sextant {

// Tensor parallelism: a 4096 x 4096 matrix in two column shards, the next one in two row shards,
// with the blueprint's shapes for two ranks.
std::vector<Picture> draw_matrices();

}  // namespace sextant
