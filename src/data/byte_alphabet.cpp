#include "data/byte_alphabet.h"

#include <array>

namespace sextant {
namespace {

constexpr int kCodes = 256 + 68;

struct Alphabet {
  std::array<int, 256> code_of_byte{};
  std::array<int, kCodes> byte_of_code{};
};

constexpr bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.byte_of_code) byte = -1;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = prints(byte) ? byte : next++;
    alphabet.code_of_byte[static_cast<size_t>(byte)] = code;
    alphabet.byte_of_code[static_cast<size_t>(code)] = byte;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t utf8_at(std::string_view text, size_t at) {
  const size_t length = utf8_length(text[at]);
  const auto lead = static_cast<unsigned char>(text[at]);
  char32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i)
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  return code;
}

void append_utf8(std::string& out, char32_t code) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | ((code >> shift) & 0x3F)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size(); at += utf8_length(token[at])) {
    const char32_t code = utf8_at(token, at);
    const int byte = code < kCodes ? kAlphabet.byte_of_code[code] : -1;
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

std::string token_of_byte(unsigned char byte) {
  std::string out;
  append_utf8(out, static_cast<char32_t>(kAlphabet.code_of_byte[byte]));
  return out;
}

}  // namespace sextant
