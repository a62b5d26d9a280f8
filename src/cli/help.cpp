#include "cli/help.h"

#include <algorithm>

#include "base/columns.h"
#include "base/error.h"
#include "base/parse.h"

namespace sextant::cli {

std::string help_entry(std::string_view name, std::string_view meaning, size_t width) {
  constexpr size_t kColumn = 30;  // where meanings begin
  const size_t column = std::min(kColumn, width / 2);
  std::string out = "  " + std::string(name);
  size_t used = width_of(out);
  bool begins_line = true;
  for (const std::string& word : split(meaning, ' ')) {
    if (word.empty()) continue;
    if (begins_line ? used >= column : used + 1 + width_of(word) > width) {
      out += '\n';
      used = 0;
      begins_line = true;
    }
    const size_t spaces = begins_line ? column - used : 1;
    out.append(spaces, ' ').append(word);
    used += spaces + width_of(word);
    begins_line = false;
  }
  return out + "\n";
}

std::string with_choices(std::string_view meaning, const std::vector<std::string>& choices) {
  std::string out(meaning);
  return choices.empty() ? out : concat(out, " [", join(choices, ", "), "]");
}

}  // namespace sextant::cli
