#pragma once
#include <string_view>

namespace sextant::cli {

// Data for standard output; a line ends with "\n" by itself. Throws Error(Failure) when the output
// cannot be written (a full disk, a closed pipe).
void print(std::string_view text);
void print_line(std::string_view text);

}  // namespace sextant::cli
