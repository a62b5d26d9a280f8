#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace sextant {

// Containers inside containers that a text may have; the limit of serde_json, which the Hugging
// Face libraries read with.
inline constexpr int kJsonDepthLimit = 127;

// The one JSON value that `text` holds. Stricter than the library it is built on: a key that occurs
// twice in one object, nesting past kJsonDepthLimit, a NUL byte, a byte order mark and anything
// after the value are refused too. Throws Error(Data), one line that begins with `what` (the file's
// name) and gives the byte offset or the key.
nlohmann::json parse_json_strict(std::string_view text, const std::string& what);

// `text` as a JSON string, quotes included, non-ASCII characters as they are. Throws Error(Data)
// when it is not UTF-8.
std::string json_quoted(std::string_view text);

// Text of unknown origin made fit for a one-line message: quoted, printable ASCII, cut when long.
std::string shown(std::string_view text);

}  // namespace sextant
