#include <algorithm>
#include <array>

#include "base/error.h"
#include "mesh/grid.h"
#include "mesh/picture.h"

namespace sextant {
namespace {

constexpr int kMostCells = 18;  // rows and columns
constexpr int kCellWidth = 44, kCellHeight = 30, kGap = 4, kMargin = 20, kTitle = 52, kLabel = 18;

struct Colour {
  const char* fill;
  const char* line;
};
// Light fills for black text; the outlines differ also in greyscale.
constexpr std::array kColours = {Colour{"#cfe3f7", "#2f6ea8"}, Colour{"#fbe0c4", "#b8651b"},
                                 Colour{"#d3edd0", "#3a8540"}, Colour{"#f7cfd3", "#b03440"},
                                 Colour{"#e3d6f2", "#6f4aa3"}, Colour{"#eee3c0", "#8a7420"},
                                 Colour{"#cdeeee", "#23807f"}, Colour{"#f6d3ea", "#a63d84"}};

std::string text(int x, int y, const char* anchor, const std::string& words, int size = 13) {
  return concat("<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\" font-size=\"", size,
                "\">", words, "</text>\n");
}

int label_width(const Grid& grid) {
  return grid.row_axes.empty() && grid.column_axes.empty()
             ? 0
             : 52 * std::max(1, static_cast<int>(grid.row_axes.size()));
}

// Boxes around the columns that differ along the faster axes only: tp inside cp inside shard.
constexpr int kPad = 6;
const char* const kBoxes[] = {"#8c959f", "#57606a", "#24292f"};  // the fastest first

int levels(const Grid& grid) {
  return std::max(0, static_cast<int>(grid.column_axes.size()) - 1);
}

// Whether two columns lie in one box of this level: 0 holds the columns of the fastest axis.
bool in_one_box(const Grid& grid, size_t one, size_t other, int level) {
  const int slow = levels(grid) - level;  // axes that must agree
  for (int i = 0; i < slow; ++i) {
    const Axis axis = grid.column_axes[static_cast<size_t>(i)];
    if (grid.column_label(one, axis) != grid.column_label(other, axis)) return false;
  }
  return true;
}

int row_height(const Grid& grid) {
  return kCellHeight + kGap + 2 * kPad * levels(grid);
}

// Left edge of a column, from that of the first box.
int column_x(const Grid& grid, size_t column) {
  int x = kPad * levels(grid);
  for (size_t i = 1; i <= column; ++i) {
    x += kCellWidth + kGap;
    for (int level = 0; level < levels(grid); ++level)
      if (!in_one_box(grid, i - 1, i, level)) x += 2 * kPad;
  }
  return x;
}

std::string boxes(const Grid& grid, size_t row, int left, int top) {
  std::string out;
  if (grid.rows[row] == kLeftOut) return out;
  for (int level = levels(grid) - 1; level >= 0; --level)
    for (size_t first = 0; first < grid.columns.size();) {
      size_t last = first;
      while (last + 1 < grid.columns.size() && in_one_box(grid, first, last + 1, level)) ++last;
      const int pad = kPad * (level + 1), x = left + column_x(grid, first) - pad;
      if (grid.columns[first] != kLeftOut)
        out += concat("<rect x=\"", x, "\" y=\"", top - pad, "\" width=\"",
                      left + column_x(grid, last) + kCellWidth + pad - x, "\" height=\"",
                      kCellHeight + 2 * pad, "\" rx=\"7\" fill=\"none\" stroke=\"",
                      kBoxes[static_cast<size_t>(level)], "\" stroke-width=\"1\"/>\n");
      first = last + 1;
    }
  return out;
}

struct Extent {
  int width, height;
};

Extent panel_extent(const Grid& grid) {
  const int columns = static_cast<int>(grid.columns.size()),
            rows = static_cast<int>(grid.rows.size()),
            headers = static_cast<int>(grid.column_axes.size());
  const int right =
      column_x(grid, static_cast<size_t>(columns) - 1) + kCellWidth + kGap + kPad * levels(grid);
  return {label_width(grid) + right, kTitle + headers * kLabel + rows * row_height(grid)};
}

std::string labels(const Grid& grid, int left, int top) {
  std::string out;
  int y = top;
  for (const Axis axis : grid.column_axes) {
    y += kLabel;
    out += text(left - 8, y - 6, "end", name_of(axis), 12);
    for (size_t column = 0; column < grid.columns.size(); ++column)
      out += text(left + column_x(grid, column) + kCellWidth / 2, y - 6, "middle",
                  grid.column_label(column, axis), 12);
  }
  for (size_t row = 0; row < grid.rows.size(); ++row) {
    std::string title;
    for (const Axis axis : grid.row_axes)
      title += concat(title.empty() ? "" : " ", name_of(axis), " ", grid.row_label(row, axis));
    out += text(left - 8, y + static_cast<int>(row) * row_height(grid) + kPad * levels(grid) + 20,
                "end", title, 12);
  }
  return out;
}

// The groups of an axis.
struct Panel {
  std::string name;
  std::vector<std::vector<int>> groups;
};

std::vector<Panel> panels_of(const MeshShape& shape) {
  std::vector<Axis> axes = used_axes(shape);
  if (axes.empty()) axes.push_back(Axis::Dp);
  std::vector<Panel> out;
  for (const Axis axis : axes) out.push_back({name_of(axis), groups_along(shape, {axis})});
  for (const ExpertAxis axis : used_expert_axes(shape))
    out.push_back({name_of(axis), expert_groups(shape, axis)});
  return out;
}

// Cells of the same group have the same colour; neighbouring groups differ.
std::string cells(const Grid& grid, const Panel& panel, int left, int top) {
  std::vector<size_t> group_of(static_cast<size_t>(grid.shape.size()));  // by rank
  for (size_t group = 0; group < panel.groups.size(); ++group)
    for (const int rank : panel.groups[group]) group_of[static_cast<size_t>(rank)] = group;
  std::string out;
  for (size_t row = 0; row < grid.rows.size(); ++row) {
    const int y = top + static_cast<int>(row) * row_height(grid) + kPad * levels(grid);
    out += boxes(grid, row, left, y);
    for (size_t column = 0; column < grid.columns.size(); ++column) {
      const int x = left + column_x(grid, column);
      const int rank = grid.rank(row, column);
      if (rank != kLeftOut) {
        const Colour& colour = kColours[group_of[static_cast<size_t>(rank)] % kColours.size()];
        out += concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", kCellWidth, "\" height=\"",
                      kCellHeight, "\" rx=\"5\" fill=\"", colour.fill, "\" stroke=\"", colour.line,
                      "\" stroke-width=\"1.5\"/>\n");
      }
      out +=
          text(x + kCellWidth / 2, y + 20, "middle", rank == kLeftOut ? "…" : std::to_string(rank));
    }
  }
  return out;
}

std::string draw(const Grid& grid, const Panel& panel, int top) {
  const size_t groups = panel.groups.size();
  const int left = kMargin + label_width(grid);
  std::string title = grid.shape.size() == 1
                          ? "1 rank"
                          : concat(panel.name, ": ", groups, groups == 1 ? " group" : " groups",
                                   " of ", panel.groups.front().size());
  const int first_row = top + kTitle + static_cast<int>(grid.column_axes.size()) * kLabel;
  return concat("<g>\n<text x=\"", kMargin, "\" y=\"", top + 34,
                "\" font-size=\"16\" font-weight=\"bold\">", title, "</text>\n",
                labels(grid, left, top + kTitle), cells(grid, panel, left, first_row), "</g>\n");
}

}  // namespace

std::string mesh_svg(const MeshShape& shape) {
  const Grid grid = make_grid(shape, kMostCells);
  const std::vector<Panel> panels = panels_of(shape);
  const Extent one = panel_extent(grid);
  const std::string name = shape.size() == 1
                               ? "mesh: 1 rank"
                               : concat("mesh: ", to_string(shape), " = ", shape.size(), " ranks");
  const int title_width = 10 * static_cast<int>(name.size());
  const int width = std::max(title_width, one.width) + 2 * kMargin,
            height = 40 + static_cast<int>(panels.size()) * one.height + kMargin;
  std::string out = concat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
      "\" viewBox=\"0 0 ", width, " ", height,
      "\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"#1b1b1b\" role=\"img\">\n<title>",
      name, "</title>\n<rect width=\"", width, "\" height=\"", height, "\" fill=\"#ffffff\"/>\n",
      text(kMargin, 32, "start", name, 18));
  for (size_t i = 0; i < panels.size(); ++i)
    out += draw(grid, panels[i], 40 + static_cast<int>(i) * one.height);
  return out + "</svg>\n";
}

}  // namespace sextant
