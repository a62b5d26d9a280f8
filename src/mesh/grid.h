#pragma once
#include <string>
#include <vector>

#include "base/columns.h"
#include "mesh/axis.h"

namespace sextant {

// Ranks in rows and columns, as both pictures show them.
struct Grid {
  std::vector<Axis> row_axes, column_axes;  // used ones, slowest first
  std::vector<int> rows, columns;           // numbers of those shown; kLeftOut stands for many
  MeshShape shape;

  int rank(size_t row, size_t column) const;  // kLeftOut where either is
  // The coordinate of a row or column along one of its axes; "…" for kLeftOut.
  std::string row_label(size_t row, Axis axis) const;
  std::string column_label(size_t column, Axis axis) const;
};

Grid make_grid(const MeshShape& shape, int most);  // at most so many rows, and columns

}  // namespace sextant
