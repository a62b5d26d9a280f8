#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Tables as text.

// Columns that a text takes: characters, not bytes.
size_t width_of(std::string_view text);

enum class Align { Left, Right };
using TextRow = std::vector<std::string>;
// A line per row, `indent` before it and two spaces between cells. The first column is to the left,
// the others as said. All rows have as many cells.
std::string aligned(const std::vector<TextRow>& rows, std::string_view indent, Align others);

// 0 ... count - 1; of more than `most` the first ones, kLeftOut, and the last.
inline constexpr int kLeftOut = -1;
std::vector<int> first_and_last(int count, int most);

}  // namespace sextant
