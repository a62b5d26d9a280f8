#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sextant::cli {

// One line of --help, or several: a name, then beside it what it means, broken between its words so
// that nothing is wider than `width` columns. A long name has a line of its own.
std::string help_entry(std::string_view name, std::string_view meaning, size_t width);

// `meaning` with the values that are accepted; none means any.
std::string with_choices(std::string_view meaning, const std::vector<std::string>& choices);

}  // namespace sextant::cli
