#include "config/value.h"

#include <array>
#include <charconv>

namespace sextant {
namespace {

std::string shortest(double number) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return std::string(buffer.data(), result.ptr);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char ch : text) {
    if (static_cast<unsigned char>(ch) < 0x20 || ch == 0x7f) {
      static constexpr char kHex[] = "0123456789abcdef";
      out.append("\\u00").append({kHex[ch >> 4], kHex[ch & 15]});
      continue;
    }
    if (ch == '"' || ch == '\\') out += '\\';
    out += ch;
  }
  return out + "\"";
}

}  // namespace

std::string to_text(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const double* number = std::get_if<double>(&value)) return shortest(*number);
  return quoted(std::get<std::string>(value));
}

std::string to_short_text(const Value& value) {
  constexpr size_t kLongest = 80;
  std::string text = to_text(value);
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) >> 6) == 2) --end;  // whole characters
  return text.substr(0, end) + "...\"";
}

}  // namespace sextant
