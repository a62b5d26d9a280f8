#include "base/columns.h"

#include <algorithm>

namespace sextant {

size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char ch) { return (static_cast<unsigned char>(ch) >> 6) != 2; }));
}

std::string aligned(const std::vector<TextRow>& rows, std::string_view indent, Align others) {
  if (rows.empty()) return "";
  std::vector<size_t> widths(rows.front().size());
  for (const TextRow& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string out;
  for (const TextRow& row : rows) {
    out += indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - width_of(row[i]), ' ');
      if (i > 0) out += "  ";
      out += i == 0 || others == Align::Left ? row[i] + room : room + row[i];
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

std::vector<int> first_and_last(int count, int most) {
  std::vector<int> shown;
  for (int i = 0; i < (count > most ? most - 2 : count); ++i) shown.push_back(i);
  if (count > most) shown.insert(shown.end(), {kLeftOut, count - 1});
  return shown;
}

}  // namespace sextant
