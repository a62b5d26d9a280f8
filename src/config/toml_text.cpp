// The only file that sees toml++. Its parser and destructors recurse once per level of nesting, so
// depth is bounded on both ways to nest: values in values, and dots in keys.
#define TOML_MAX_NESTED_VALUES 16
#define TOML_ENABLE_FORMATTERS 0
#include "config/toml_text.h"

#include <toml++/toml.h>

#include <algorithm>

#include "base/error.h"

namespace sextant {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int kMaxDots = 64;  // in one line; a key has one, a path or a comment some

void check_bounds(const std::string& text, const std::string& name) {
  SXT_CHECK(text.size() <= kMaxBytes, Config, name, ": has ", text.size(),
            " bytes, a configuration has at most ", kMaxBytes);
  int line = 1;
  int dots = 0;
  for (const char ch : text) {
    if (ch == '\n') {
      ++line;
      dots = 0;
    }
    dots += ch == '.';
    SXT_CHECK(dots <= kMaxDots, Config, name, ":", line, ": more than ", kMaxDots,
              " dots in one line, a key is section.name");
  }
}

// What the parser quotes from the file may hold anything; an error is one line.
std::string one_line(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char ch) { return ch < 0x20 || ch == 0x7f; }, '?');
  return out;
}

// A quoted name with a dot in it stays one part, and so no known key.
std::string key_part(std::string_view name) {
  const std::string part = one_line(name);
  return part.find('.') == std::string::npos ? part : "\"" + part + "\"";
}

TomlEntry entry_of(const toml::node& node, std::string key) {
  TomlEntry entry{std::move(key), {}, {}, static_cast<int>(node.source().begin.line)};
  if (const auto* flag = node.as_boolean()) {
    entry.value = flag->get();
    entry.kind = "true or false";
  } else if (const auto* integer = node.as_integer()) {
    entry.value = integer->get();
    entry.kind = "an integer";
  } else if (const auto* number = node.as_floating_point()) {
    entry.value = number->get();
    entry.kind = "a number";
  } else if (const auto* string = node.as_string()) {
    entry.value = string->get();
    entry.kind = "text";
  } else if (node.is_table()) {
    entry.kind = "an empty table";
  } else if (node.is_array()) {
    entry.kind = "an array";
  } else {
    entry.kind = "a date or time";
  }
  return entry;
}

void flatten(std::vector<TomlEntry>& out, const toml::table& table, const std::string& prefix) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + key_part(name.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      flatten(out, *inner, key + ".");
    } else {
      out.push_back(entry_of(node, key));
    }
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(const std::string& text, const std::string& name) {
  check_bounds(text, name);
  std::vector<TomlEntry> entries;
  try {
    flatten(entries, toml::parse(text, name), "");
  } catch (const toml::parse_error& error) {
    SXT_FAIL(Config, name, ":", error.source().begin.line, ": ", one_line(error.description()));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
  return entries;
}

}  // namespace sextant
