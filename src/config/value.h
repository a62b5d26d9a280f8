#pragma once
#include <cstdint>
#include <string>
#include <variant>

namespace sextant {

// A setting as it is written in a file or on the command line.
using Value = std::variant<bool, int64_t, double, std::string>;

// As TOML writes it: true, 12, 3e-04, "text". Numbers read back to the same bits.
// Always one line.
std::string to_text(const Value& value);
// The same for messages: long text is cut.
std::string to_short_text(const Value& value);

}  // namespace sextant
