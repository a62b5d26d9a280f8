#pragma once
#include <string>
#include <string_view>

namespace sextant {

// Translates a pattern of a tokenizer.json (Oniguruma, Ruby syntax) to PCRE2: classes with
// different contents (\s, \w, \h, scripts) are spelled out. Untranslated syntax with a different
// meaning (nested classes, flags other than i, repeated intervals, ...) throws Error(Data) that
// names it; the message starts with `what`.
std::string to_pcre2(std::string_view regex, const std::string& what);

}  // namespace sextant
