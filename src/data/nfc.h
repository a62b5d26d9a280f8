#pragma once
#include <string>
#include <string_view>

namespace sextant {

// Unicode normalization form C of valid UTF-8: canonical decomposition, canonical order,
// composition. ASCII is unchanged.
std::string to_nfc(std::string_view text);

}  // namespace sextant
