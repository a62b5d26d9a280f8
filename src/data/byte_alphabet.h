#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace sextant {

// Byte-level vocabularies write every byte as one printable character: itself where it prints,
// U+0100 and on for the 68 others. "Ġthe" stands for " the".
// The bytes that a vocabulary entry stands for, or nothing if it has a character outside.
std::optional<std::string> bytes_of_token(std::string_view token);

// One byte as its character, in UTF-8.
std::string token_of_byte(unsigned char byte);

// Length in bytes of the UTF-8 character that this lead byte begins; the text is valid UTF-8.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character that begins at `at`; the text is valid UTF-8.
char32_t utf8_at(std::string_view text, size_t at);
void append_utf8(std::string& out, char32_t code);

}  // namespace sextant
