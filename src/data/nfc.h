#pragma once
#include <string>
#include <string_view>

namespace sextant {

// Unicode normalization form C of valid UTF-8: characters decomposed, marks put in canonical order,
// composed again. ASCII comes back as it is.
std::string to_nfc(std::string_view text);

}  // namespace sextant
