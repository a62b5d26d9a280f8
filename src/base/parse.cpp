#include "base/parse.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

namespace sextant {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

std::string print(const char* format, double value) {
  std::array<char, 64> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), format, value);
  return std::string(buffer.data(), static_cast<size_t>(length));
}

struct Unit {
  std::string_view name;
  double size;
};

// A number, perhaps with the first unit that the text ends with.
std::optional<int64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
  const auto unit =
      std::ranges::find_if(units, [&](const Unit& u) { return text.ends_with(u.name); });
  const double scale = unit == units.end() ? 1 : unit->size;
  if (unit != units.end()) text.remove_suffix(unit->name.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  const std::optional<double> value = parse_double(text);
  if (!value || *value < 0 || *value * scale > 9.2e18) return {};
  return static_cast<int64_t>(*value * scale);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substitute});
    }
  }
  return row.back();
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text) {
  return parse_number<int64_t>(text);
}

std::optional<double> parse_double(std::string_view text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) return {};
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return {};
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  static constexpr Unit kUnits[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                                    {"TiB", 0x1p40}, {"KB", 1e3},     {"MB", 1e6},
                                    {"GB", 1e9},     {"TB", 1e12},    {"B", 1}};
  return parse_quantity(text, kUnits);
}

std::optional<int64_t> parse_count(std::string_view text) {
  static constexpr Unit kUnits[] = {{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  return parse_quantity(text, kUnits);
}

std::string format_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"%.0f B",   "%.1f KiB", "%.1f MiB",
                                           "%.2f GiB", "%.2f TiB", "%.2f PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return print(kUnits[unit], value);
}

std::string format_count(double count) {
  static constexpr const char* kUnits[] = {"%.0f", "%.1fk", "%.1fM", "%.2fB", "%.2fT"};
  size_t unit = 0;
  while (std::abs(count) >= 1000 && unit + 1 < std::size(kUnits)) {
    count /= 1000;
    ++unit;
  }
  return print(kUnits[unit], count);
}

std::string format_duration(double seconds) {
  const auto total = static_cast<int64_t>(std::max(0.0, seconds));
  std::array<char, 64> buffer;
  const long long hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  const int length =
      hours > 0
          ? std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld:%02lld", hours, minutes, rest)
          : std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld", minutes, rest);
  return std::string(buffer.data(), static_cast<size_t>(length));
}

std::optional<std::string> nearest_name(std::string_view word,
                                        std::span<const std::string> candidates) {
  size_t best = std::numeric_limits<size_t>::max();
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  if (found && best > std::max<size_t>(2, word.size() / 2)) return {};
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::optional<std::string> near = nearest_name(word, candidates);
  return near ? ", did you mean '" + *near + "'?" : "";
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789-_=./:,+@%") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char letter : word)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80       ? 1
                          : lead >> 5 == 6  ? 2
                          : lead >> 4 == 14 ? 3
                          : lead >> 3 == 30 ? 4
                                            : 0;
    if (length == 0 || i + length > text.size()) return false;
    uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t j = 1; j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3Fu);
    }
    static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      return false;
    i += length;
  }
  return true;
}

}  // namespace sextant
