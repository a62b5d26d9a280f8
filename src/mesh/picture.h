#pragma once
#include <string>
#include <vector>

#include "mesh/axis.h"

namespace sextant {

// A mesh to look at. Rows are replicas (pp and dp), columns the ranks of one (shard, cp, tp); a
// long row or column is cut in its middle.

// The axes of degree above 1, slowest first: those that have something to show.
std::vector<Axis> used_axes(const MeshShape& shape);

// A grid of rank numbers, then the groups of every used axis. Ends with a newline.
std::string mesh_picture(const MeshShape& shape);

// The same grid once for every used axis, its groups in colours; a whole SVG document.
std::string mesh_svg(const MeshShape& shape);

}  // namespace sextant
