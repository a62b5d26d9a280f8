#include "mesh/grid.h"

#include <algorithm>

#include "mesh/picture.h"

namespace sextant {
namespace {

MeshShape only(const MeshShape& shape, const std::vector<Axis>& axes) {
  MeshShape out;
  for (const Axis axis : axes) out.degrees[static_cast<size_t>(axis)] = shape.degree(axis);
  return out;
}

// 0 ... count - 1; if these are too many, the first few and the last.
std::vector<int> shown(int count, int most) {
  std::vector<int> out;
  const int head = count <= most ? count : most / 2 - 2;
  for (int i = 0; i < head; ++i) out.push_back(i);
  if (count > most) out.insert(out.end(), {kLeftOut, count - 1});
  return out;
}

std::string label(const MeshShape& shape, const std::vector<Axis>& axes, int number, Axis axis) {
  if (number == kLeftOut) return "…";
  return std::to_string(coordinates_of(only(shape, axes), number)[static_cast<size_t>(axis)]);
}

}  // namespace

std::vector<Axis> used_axes(const MeshShape& shape) {
  std::vector<Axis> out;
  for (int axis = kAxes - 1; axis >= 0; --axis)
    if (shape.degree(static_cast<Axis>(axis)) > 1) out.push_back(static_cast<Axis>(axis));
  return out;
}

std::vector<ExpertAxis> used_expert_axes(const MeshShape& shape) {
  if (shape.expert_size() == 1) return {};
  if (shape.etp == 1) return {ExpertAxis::Ep, ExpertAxis::Edp};
  return {kExpertAxes.begin(), kExpertAxes.end()};
}

int Grid::rank(size_t row, size_t column) const {
  if (rows[row] == kLeftOut || columns[column] == kLeftOut) return kLeftOut;
  return rank_at(shape, coordinates_of(only(shape, row_axes), rows[row])) +
         rank_at(shape, coordinates_of(only(shape, column_axes), columns[column]));
}

std::string Grid::row_label(size_t row, Axis axis) const {
  return label(shape, row_axes, rows[row], axis);
}

std::string Grid::column_label(size_t column, Axis axis) const {
  return label(shape, column_axes, columns[column], axis);
}

Grid make_grid(const MeshShape& shape, int most) {
  Grid grid;
  grid.shape = shape;
  for (const Axis axis : used_axes(shape))
    (axis == Axis::Dp || axis == Axis::Pp ? grid.row_axes : grid.column_axes).push_back(axis);
  // Replicas of one rank each are drawn in a single row.
  if (grid.column_axes.empty() && !grid.row_axes.empty() && grid.row_axes.back() == Axis::Dp) {
    grid.row_axes.pop_back();
    grid.column_axes.push_back(Axis::Dp);
  }
  grid.rows = shown(only(shape, grid.row_axes).size(), most);
  grid.columns = shown(only(shape, grid.column_axes).size(), most);
  return grid;
}

}  // namespace sextant
