#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace sextant {

// Byte-level vocabularies write every byte as one printable character: itself if printable, else
// one of U+0100 and up (68 bytes). "Ġthe" stands for " the". Returns the bytes of a vocabulary
// entry, or nullopt if it has a character outside this alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

// The character of a byte, in UTF-8.
std::string token_of_byte(unsigned char byte);

// Length in bytes of the UTF-8 character with this lead byte; the text is valid UTF-8.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at byte offset `at`; the text is valid UTF-8.
char32_t utf8_at(std::string_view text, size_t at);
void append_utf8(std::string& out, char32_t code);

}  // namespace sextant
