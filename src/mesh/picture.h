#pragma once
#include <string>
#include <vector>

#include "mesh/axis.h"

namespace sextant {

// Drawings of a mesh. Rows are pp and dp, columns are shard, cp and tp; the middle of a long row or
// column is left out.

// The axes of degree above 1, slowest first.
std::vector<Axis> used_axes(const MeshShape& shape);
// Those of experts, fastest first: etp where it is above 1, ep and edp where experts are spread.
std::vector<ExpertAxis> used_expert_axes(const MeshShape& shape);

// A grid of rank numbers, then the groups of every used axis. Ends with a newline.
std::string mesh_picture(const MeshShape& shape);

// The same grid once for every used axis, those of experts too, its groups in colours, with boxes
// around the tp ranks of a cp rank and the cp ranks of a shard; a complete SVG document.
std::string mesh_svg(const MeshShape& shape);

}  // namespace sextant
