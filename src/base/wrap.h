#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace sextant {

// Text for a terminal of `width` columns. A longer line is broken between its fields (two spaces
// or more), else between its words, and continues indented; no word is broken. Neighbouring lines
// that are all too long and have a column of spaces in common are a table: they break there, and
// what follows stays aligned.
std::string wrapped(std::string_view text, size_t width);

// The first `width` characters, none cut in two.
std::string_view cut_to(std::string_view text, size_t width);

}  // namespace sextant
