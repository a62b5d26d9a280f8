#include "base/wrap.h"

#include <algorithm>
#include <vector>

#include "base/columns.h"
#include "base/parse.h"

namespace sextant {
namespace {

bool continues_character(char ch) {
  return (static_cast<unsigned char>(ch) >> 6) == 2;
}

// Byte of a line at which a column begins; its size if it is shorter.
size_t byte_of(std::string_view line, size_t column) {
  size_t at = 0;
  for (; at < line.size(); ++at)
    if (!continues_character(line[at]) && column-- == 0) return at;
  return at;
}

bool is_gap(std::string_view line, size_t column) {
  const size_t at = byte_of(line, column);
  return at >= line.size() || line[at] == ' ';
}

std::string_view without_end(std::string_view line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

// Where what continues a line begins: below its second field if a short name is in front.
size_t indent_of(std::string_view line) {
  constexpr size_t kMost = 16;
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  const size_t name_end = line.find("  ", first);
  const size_t field =
      name_end == std::string_view::npos ? name_end : line.find_first_not_of(' ', name_end);
  if (first == 0 && field != std::string_view::npos && field <= kMost) return field;
  return std::min(first + 2, kMost);
}

// Last byte at which a line may break to fit, or the first one after a word that is too long; 0:
// nowhere.
size_t break_of(std::string_view line, size_t width, size_t indent) {
  const size_t end = byte_of(line, width);
  const size_t fields = line.rfind("  ", end);
  if (fields != std::string_view::npos && fields > std::max(indent, width / 3)) return fields + 1;
  size_t words = line.rfind(' ', end);
  if (words == std::string_view::npos || words < indent) words = line.find(' ', end);
  return words == std::string_view::npos ? 0 : words;
}

void wrap_line(std::string& out, std::string_view line, size_t width) {
  const size_t indent = std::min(indent_of(line), width / 2);
  size_t columns = width;
  while (width_of(line) > columns) {
    const size_t at = break_of(line, columns, columns == width ? indent : 0);
    if (at == 0) break;
    out.append(without_end(line.substr(0, at))).push_back('\n');
    line.remove_prefix(std::min(line.find_first_not_of(' ', at), line.size()));
    out.append(indent, ' ');
    columns = width - indent;
  }
  out.append(line).push_back('\n');
}

using Lines = std::vector<std::string_view>;

// A column of a table before which all of its lines can break, as far to the right as fits; 0:
// none.
size_t common_gap(const Lines& table, size_t width) {
  for (size_t column = width; column > width / 2; --column)
    if (std::ranges::all_of(table, [&](std::string_view line) {
          return is_gap(line, column - 1) && is_gap(line, column);
        }))
      return column;
  return 0;
}

// The parts of every line that lie between the same columns, one below the other.
bool wrap_table(std::string& out, const Lines& table, size_t width) {
  const size_t indent = std::min(indent_of(table.front()), width / 2);
  std::vector<std::string> lines(table.size());
  Lines rest = table;
  size_t columns = width;
  while (
      std::ranges::any_of(rest, [&](std::string_view line) { return width_of(line) > columns; })) {
    const size_t column = common_gap(rest, columns);
    if (column == 0) return false;
    size_t spaces = width;  // in front of all that follows
    for (size_t i = 0; i < rest.size(); ++i) {
      const size_t at = byte_of(rest[i], column);
      lines[i].append(without_end(rest[i].substr(0, at))).append("\n");
      rest[i].remove_prefix(at);
      if (!rest[i].empty()) spaces = std::min(spaces, rest[i].find_first_not_of(' '));
    }
    for (size_t i = 0; i < rest.size(); ++i) {
      rest[i].remove_prefix(std::min(spaces, rest[i].size()));
      if (!rest[i].empty()) lines[i].append(indent, ' ');
    }
    columns = width - indent;
  }
  for (size_t i = 0; i < table.size(); ++i) {
    lines[i].append(rest[i]);
    if (!rest[i].empty()) lines[i] += '\n';
    out += lines[i];
  }
  return true;
}

}  // namespace

std::string_view cut_to(std::string_view text, size_t width) {
  return text.substr(0, byte_of(text, width));
}

std::string wrapped(std::string_view text, size_t width) {
  constexpr size_t kLeast = 20;  // nothing can be read in less
  if (width < kLeast) return std::string(text);
  const bool ends = text.ends_with('\n');
  if (ends) text.remove_suffix(1);
  std::string out;
  const std::vector<std::string> lines = split(text, '\n');
  for (size_t i = 0; i < lines.size();) {
    Lines table;
    while (i + table.size() < lines.size() && width_of(lines[i + table.size()]) > width)
      table.push_back(lines[i + table.size()]);
    if (table.size() < 2 || !wrap_table(out, table, width))
      for (size_t k = 0; k < std::max<size_t>(1, table.size()); ++k)
        wrap_line(out, lines[i + k], width);
    i += std::max<size_t>(1, table.size());
  }
  if (!ends) out.pop_back();
  return out;
}

}  // namespace sextant
