#pragma once
#include <string>
#include <vector>

namespace sextant {

// One collective before and after, as an SVG document.
struct CollectivePicture {
  std::string name;  // "all_reduce"
  std::string svg;
};

// Runs broadcast, scatter, gather, reduce, all_gather, reduce_scatter, all_reduce and all_to_all on
// four ranks (threads) with labelled elements, and draws what each rank held before and what it
// really got. The same text on every run.
std::vector<CollectivePicture> draw_collectives();

}  // namespace sextant
