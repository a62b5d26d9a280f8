#pragma once
#include <string>
#include <vector>

#include "base/columns.h"
#include "mesh/axis.h"

namespace sextant {

// Ranks in rows and columns, for both pictures.
struct Grid {
  std::vector<Axis> row_axes, column_axes;  // with degree above 1, slowest first
  std::vector<int> rows, columns;           // indices shown; kLeftOut stands for those left out
  MeshShape shape;

  int rank(size_t row, size_t column) const;  // kLeftOut if row or column is
  // The coordinate of a row or column along one of its axes; "…" for kLeftOut.
  std::string row_label(size_t row, Axis axis) const;
  std::string column_label(size_t column, Axis axis) const;
};

Grid make_grid(const MeshShape& shape, int most);  // at most `most` rows and columns

}  // namespace sextant
