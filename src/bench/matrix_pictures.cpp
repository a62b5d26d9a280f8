#include "bench/matrix_pictures.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/parse.h"
#include "blueprint/blueprint.h"

namespace sextant {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kWide = 4096;
constexpr int64_t kElementSize = 2;  // bf16

// A shard of a matrix in y = x W.
struct Part {
  int64_t rows, columns;
  std::string text() const { return concat(rows, " × ", columns); }
  int64_t bytes() const { return rows * columns * kElementSize; }
};

// Parameters are stored as W^T, [out, in].
Part part_of(const Blueprint& blueprint, const std::string& name) {
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& param : layer.params)
      if (param.name == name) return {param.shape[1], param.shape[0]};
  SXT_FAIL(Internal, "no parameter ", name);
}

// Both matrices of a feed-forward layer with ffn = hidden.
struct Cut {
  Part columns, rows;
};

std::array<Cut, kRanks> cut_matrices() {
  ModelConfig model;
  model.layers = 1;
  model.hidden = model.ffn = kWide;
  model.heads = model.kv_heads = 32;
  model.head_dim = kWide / model.heads;
  model.vocab = model.seq = 128;
  std::array<Cut, kRanks> cuts;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Blueprint blueprint = make_blueprint(model, {kRanks, rank});
    cuts[static_cast<size_t>(rank)] = {part_of(blueprint, "layers.0.mlp.up.weight"),
                                       part_of(blueprint, "layers.0.mlp.down.weight")};
  }
  return cuts;
}

// Sizes in pixels. A weight is a square; inputs and outputs have the same width and less height.
constexpr int kMargin = 12, kSquare = 144, kLow = 48, kBetween = 44;
constexpr int kHead = 30, kPanelHead = 56, kPanel = kPanelHead + kSquare + 44;
constexpr int kWords = 260;
constexpr int kText = kMargin + 3 * kSquare + 2 * kBetween + 28;
constexpr int kWidth = kText + kWords + kMargin;
constexpr int kHeight = 2 * kMargin + kHead + 2 * kPanel - 20;
constexpr const char* kDigits[] = {"₀", "₁"};

int column_x(int column) {
  return kMargin + column * (kSquare + kBetween);
}

std::string words(const char* kind, int x, int y, const std::string& text) {
  return fmt::format("<text{} x=\"{}\" y=\"{}\">{}</text>\n",
                     *kind == 0 ? "" : fmt::format(" class=\"{}\"", kind), x, y, text);
}

struct Box {
  int x, y, width, height;
};

std::string box(const std::string& kind, const Box& at, const std::string& label) {
  return fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", kind,
                     at.x, at.y, at.width, at.height) +
         words("label", at.x + at.width / 2, at.y + at.height / 2 + 4, label);
}

enum class Along { Columns, Rows };

// One box per rank, side by side or stacked, with a gap between.
std::string halves(const std::string& letter, const Box& at, Along along) {
  std::string out;
  for (int rank = 0; rank < kRanks; ++rank) {
    Box half = at;
    if (along == Along::Columns) {
      half.width = at.width / kRanks - 1;
      half.x = at.x + rank * (at.width / kRanks + 1);
    } else {
      half.height = at.height / kRanks - 1;
      half.y = at.y + rank * (at.height / kRanks + 1);
    }
    out += box(fmt::format("s{}", rank), half, letter + kDigits[rank]);
  }
  return out;
}

// The matrix's name above it, the shape of a shard below.
std::string captions(int column, int top, int height, const std::string& above,
                     const std::string& below) {
  const int middle = column_x(column) + kSquare / 2, center = top + kSquare / 2;
  return words("name", middle, center - height / 2 - 8, above) +
         words("name", middle, center + height / 2 + 18, below);
}

std::string sign(int column, int top, const char* text) {
  return words("title", column_x(column) - kBetween / 2 - 5, top + kSquare / 2 + 5, text);
}

std::string lines(int top, const std::vector<std::string>& texts) {
  std::string out;
  int y = top + kSquare / 2 - 18 * (static_cast<int>(texts.size()) - 1) / 2 + 4;
  for (const std::string& text : texts) {
    out += words("", kText, y, text);
    y += 18;
  }
  return out;
}

Box low(int column, int top, int shift = 0) {
  return {column_x(column), top + (kSquare - kLow) / 2 + shift, kSquare, kLow};
}

std::string each(const Part& part) {
  return fmt::format("{} each, {}", part.text(), format_bytes(part.bytes()));
}

std::string column_panel(const Part& part, int y) {
  const int top = y + kPanelHead;
  const Box x = low(0, top);
  std::string out = picture_title("in columns: Y = X W", kMargin, y + 16);
  out += fmt::format("<rect class=\"both\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", x.x,
                     x.y, x.width, x.height);
  out += words("label", x.x + x.width / 2, x.y + x.height / 2 + 4, "X");
  out += captions(0, top, kLow, "on both ranks", fmt::format("batch × {}", part.rows));
  out += sign(1, top, "×");
  out += halves("W", {column_x(1), top, kSquare, kSquare}, Along::Columns);
  out += captions(1, top, kSquare, fmt::format("{} × {}", part.rows, kRanks * part.columns),
                  each(part));
  out += sign(2, top, "=");
  out += halves("Y", low(2, top), Along::Columns);
  out +=
      captions(2, top, kLow, "each has its columns", fmt::format("batch × {} each", part.columns));
  return out +
         lines(top, {"Y = [ X W₀ , X W₁ ]: half the work", "and half the memory on each rank.",
                     "Forward sends nothing; an all-gather", "would make the whole Y.",
                     "Backward sums the gradient of X."});
}

std::string row_panel(const Part& part, int y) {
  const int top = y + kPanelHead;
  std::string out = picture_title("then in rows: Z = Y V", kMargin, y + 16);
  out += halves("Y", low(0, top), Along::Columns);
  out += captions(0, top, kLow, "as it comes", fmt::format("batch × {} each", part.rows));
  out += sign(1, top, "×");
  out += halves("V", {column_x(1), top, kSquare, kSquare}, Along::Rows);
  out += captions(1, top, kSquare, fmt::format("{} × {}", kRanks * part.rows, part.columns),
                  each(part));
  out += sign(2, top, "=");
  constexpr int kApart = 38;
  for (int rank = 0; rank < kRanks; ++rank)
    out += box(fmt::format("s{}", rank), low(2, top, (2 * rank - 1) * kApart),
               fmt::format("Y{0} V{0}", kDigits[rank]));
  out += words("title", column_x(2) + kSquare / 2 - 5, top + kSquare / 2 + 5, "+");
  out += captions(2, top, kLow + 2 * kApart, "a partial sum of Z on each",
                  fmt::format("batch × {}", part.columns));
  return out +
         lines(top, {"Z = Y₀ V₀ + Y₁ V₁: a rank multiplies", "its columns of Y with its rows of V.",
                     "One sum over the ranks gives Z:", "an all-reduce, or a reduce-scatter",
                     "where each goes on with its tokens."});
}

std::string draw() {
  const std::array<Cut, kRanks> cuts = cut_matrices();
  for (const Cut& cut : cuts)
    SXT_CHECK(
        cut.columns.bytes() == cuts[0].columns.bytes() && cut.rows.bytes() == cuts[0].rows.bytes(),
        Internal, "two ranks have unequal halves");
  const std::string title = fmt::format(
      "A matrix of {0} × {0} on {1} ranks: {2} of {3} on each, in bf16", kWide, kRanks,
      format_bytes(cuts[0].columns.bytes()), format_bytes(kRanks * cuts[0].columns.bytes()));
  std::string out = picture_header(title, kWidth, kHeight);
  out += "<style>.both { fill: #6e7781; }</style>\n";
  out += picture_title(title, kMargin, kMargin + 14);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int x = kText + rank * 80;
    out +=
        fmt::format("<rect class=\"s{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" rx=\"3\"/>\n",
                    rank, x, kMargin + kHead + 5);
    out += words("", x + 20, kMargin + kHead + 16, fmt::format("rank {}", rank));
  }
  out += column_panel(cuts[0].columns, kMargin + kHead);
  out += row_panel(cuts[0].rows, kMargin + kHead + kPanel);
  return out + "</svg>\n";
}

}  // namespace

std::vector<Picture> draw_matrices() {
  return {{"columns_and_rows", draw()}};
}

}  // namespace sextant
