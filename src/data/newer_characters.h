#pragma once
#include <string>
#include <string_view>

namespace sextant {

// Characters of a general category (L, Lu, N, ...) that are newer than Unicode 14, as members of a
// PCRE2 class. The reference tokenizer knows Unicode 16; the PCRE2 of a machine may know less, and
// two that disagree on what a letter is would cut words differently.
std::string newer_characters(std::string_view category);

}  // namespace sextant
