#include "mesh/picture.h"

#include <algorithm>

#include "base/columns.h"
#include "base/error.h"
#include "mesh/grid.h"

namespace sextant {
namespace {

constexpr int kMost = 16;          // rows and columns of the grid, ranks of a group
constexpr size_t kMostNamed = 32;  // ranks named in a line of groups

std::string right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, width_of(text)), ' ') + text;
}

std::string centred(const std::string& text, size_t width) {
  const size_t room = width - std::min(width, width_of(text));
  return std::string(room - room / 2, ' ') + text + std::string(room / 2, ' ');
}

std::string rule(const char* left, const char* between, const char* end, size_t cells,
                 size_t width) {
  std::string out = left;
  for (size_t i = 0; i < cells; ++i) {
    for (size_t j = 0; j < width; ++j) out += "─";
    out += i + 1 < cells ? between : end;
  }
  return out + "\n";
}

std::string row_title(const Grid& grid, size_t row) {
  std::string out;
  for (const Axis axis : grid.row_axes)
    out += concat(out.empty() ? "" : " ", name_of(axis), " ", grid.row_label(row, axis));
  return out;
}

std::string draw(const Grid& grid) {
  const size_t cells = grid.columns.size();
  const size_t width = 2 + std::to_string(grid.shape.size() - 1).size();
  size_t margin = 0;
  for (size_t row = 0; row < grid.rows.size(); ++row)
    margin = std::max(margin, width_of(row_title(grid, row)));
  for (const Axis axis : grid.column_axes)
    margin = std::max(margin, std::string(name_of(axis)).size());
  const std::string indent(margin + 3, ' ');
  std::string out;
  for (const Axis axis : grid.column_axes) {
    out += "  " + right(name_of(axis), margin) + " ";
    for (size_t column = 0; column < cells; ++column)
      out += " " + centred(grid.column_label(column, axis), width);
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  out += indent + rule("┌", "┬", "┐", cells, width);
  for (size_t row = 0; row < grid.rows.size(); ++row) {
    if (row > 0) out += indent + rule("├", "┼", "┤", cells, width);
    out += "  " + right(row_title(grid, row), margin) + " │";
    for (size_t column = 0; column < cells; ++column) {
      const int rank = grid.rank(row, column);
      out += centred(rank == kLeftOut ? "…" : std::to_string(rank), width) + "│";
    }
    out += "\n";
  }
  return out + indent + rule("└", "┴", "┘", cells, width);
}

std::string in_words(const std::vector<int>& group) {
  std::string out = "{";
  for (size_t i = 0; i < group.size(); ++i) {
    const bool cut = group.size() > static_cast<size_t>(kMost) && i == 3;
    if (cut) i = group.size() - 1;
    out += concat(i == 0 ? "" : " ", cut ? "… " : "", group[i]);
  }
  return out + "}";
}

std::string groups_line(const std::string& name, const std::vector<std::vector<int>>& groups) {
  std::string out = "  " + name + std::string(7 - std::min<size_t>(7, name.size()), ' ');
  out += concat(groups.size(), groups.size() == 1 ? " group of " : " groups of ",
                groups.front().size(), ":");
  const size_t size = groups.front().size(), named = size > static_cast<size_t>(kMost) ? 4 : size;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i * named >= kMostNamed) return out + concat(" … and ", groups.size() - i, " more\n");
    out += " " + in_words(groups[i]);
  }
  return out + "\n";
}

}  // namespace

std::string mesh_picture(const MeshShape& shape) {
  const int size = shape.size();
  std::string out =
      size == 1 ? "mesh: 1 rank\n" : concat("mesh: ", to_string(shape), " = ", size, " ranks\n");
  out += draw(make_grid(shape, kMost));
  const std::vector<Axis> axes = used_axes(shape);
  for (const Axis axis : axes) out += groups_line(name_of(axis), groups_along(shape, {axis}));
  if (axes.size() > 1)
    out += groups_line("data", groups_along(shape, {Axis::Dp, Axis::Shard, Axis::Cp}));
  for (const ExpertAxis axis : used_expert_axes(shape))
    out += groups_line(name_of(axis), expert_groups(shape, axis));
  return out;
}

}  // namespace sextant
