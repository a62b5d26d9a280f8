#pragma once
#include <string>
#include <string_view>

namespace sextant {

// Characters of a general category (L, Lu, N, ...) newer than Unicode 14, as members of a PCRE2
// class. The reference tokenizer uses Unicode 16; an older PCRE2 would classify letters, and so
// split words, differently.
std::string newer_characters(std::string_view category);

}  // namespace sextant
