#pragma once
#include <string>
#include <string_view>

namespace sextant {

// The pattern of a tokenizer.json (written for Oniguruma with its Ruby syntax) as PCRE2 reads it:
// classes with other contents (\s, \w, \h, scripts) are spelled out. What has another meaning there
// and is not translated (nested classes, flags other than i, repeated intervals, ...) throws
// Error(Data) that names it; `what` begins the message.
std::string to_pcre2(std::string_view regex, const std::string& what);

}  // namespace sextant
