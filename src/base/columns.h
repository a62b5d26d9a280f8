#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Tables as text.

// Width of a text in characters, not bytes.
size_t width_of(std::string_view text);

enum class Align { Left, Right };
using TextRow = std::vector<std::string>;
// One line per row, with `indent` in front and two spaces between cells. The first column is
// left-aligned, the others by `others`. All rows have the same number of cells.
std::string aligned(const std::vector<TextRow>& rows, std::string_view indent, Align others);

// 0 ... count - 1; if there are more than `most`, the first ones, kLeftOut, and the last.
inline constexpr int kLeftOut = -1;
std::vector<int> first_and_last(int count, int most);

}  // namespace sextant
