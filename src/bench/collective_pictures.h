#pragma once
#include <vector>

#include "bench/picture.h"

namespace sextant {

// Runs broadcast, scatter, gather, reduce, all_gather, reduce_scatter, all_reduce and all_to_all on
// four ranks (threads) with labelled elements, and draws each rank's data before and after. The
// same text on every run.
std::vector<Picture> draw_collectives();

}  // namespace sextant
