// The only file that sees toml++, and what keeps its weak spots out of reach:
// - parser and destructors recurse once per level, so values in values and dots in keys are
// bounded;
// - a header such as [.x] or [[[x]]] fails an assertion though the lines after it report it well;
//   without assertions (and NDEBUG, which turns them into promises to the compiler) they do;
// - letters such as U+00FC in places where it looks for space are undefined behaviour, even inside
//   quotes once the line is wrong; so it is given ASCII only, with such letters as escapes.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_MAX_NESTED_VALUES 16
#define TOML_ENABLE_FORMATTERS 0
#include "config/toml_text.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int kMaxDots = 64;  // outside of quotes in one line; a key has one

bool is_ascii(char ch) {
  return static_cast<unsigned char>(ch) < 0x80;
}

// A text of the same lines and the same meaning in ASCII; what has none is refused.
class AsciiText {
 public:
  AsciiText(const std::string& text, const std::string& name) : text_(text), name_(name) {
    check(text.size() <= kMaxBytes, concat("has ", text.size(), " bytes, at most ", kMaxBytes));
    check(is_utf8(text), "is not UTF-8 text");
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        comment();
      } else if (text_[at_] == '"' || text_[at_] == '\'') {
        quoted();
      } else {
        plain();
      }
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void check(bool holds, const std::string& problem) const {
    SXT_CHECK(holds, Config, name_, ":", line_, ": ", problem);
  }

  void comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void plain() {
    const char ch = text_[at_++];
    check(is_ascii(ch), "a letter beyond ASCII outside of quotes");
    line_ += ch == '\n';
    dots_ = ch == '\n' ? 0 : dots_ + (ch == '.');
    check(dots_ <= kMaxDots,
          concat("more than ", kMaxDots, " dots in one line, a key is section.name"));
    out_ += ch;
  }

  // Up to the closing quote, or the end of the line, which the parser then reports.
  void quoted() {
    const char quote = text_[at_];
    check(text_.compare(at_, 3, std::string(3, quote)) != 0,
          "a string of several lines, settings have one line");
    out_ += text_[at_++];
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char ch = text_[at_];
      if (is_ascii(ch)) {
        out_ += ch;
        ++at_;
        if (ch == quote) return;
        if (ch == '\\' && quote == '"' && at_ < text_.size() && text_[at_] != '\n') {
          check(is_ascii(text_[at_]), "an escape that TOML does not have");
          out_ += text_[at_++];
        }
      } else {
        check(quote == '"', "a letter beyond ASCII in single quotes, use double quotes");
        escape();
      }
    }
  }

  void escape() {
    const auto lead = static_cast<unsigned char>(text_[at_++]);
    uint32_t code = lead < 0xe0 ? lead & 0x1fu : lead < 0xf0 ? lead & 0x0fu : lead & 0x07u;
    for (; at_ < text_.size() && (static_cast<unsigned char>(text_[at_]) >> 6) == 2; ++at_)
      code = code << 6 | (static_cast<unsigned char>(text_[at_]) & 0x3fu);
    out_ += "\\U";
    for (int shift = 28; shift >= 0; shift -= 4) out_ += "0123456789abcdef"[code >> shift & 15];
  }

  const std::string& text_;
  const std::string& name_;
  std::string out_;
  size_t at_ = 0;
  int line_ = 1;
  int dots_ = 0;
};

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

std::string_view line_of(std::string_view text, int number) {
  for (int i = 1; i < number; ++i) text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  return text.substr(0, text.find('\n'));
}

// "preset = tiny": a value that begins with a letter and is none of TOML's words.
bool lacks_quotes(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return false;
  const size_t first = line.find_first_not_of(" \t", equals + 1);
  if (first == std::string_view::npos) return false;
  const std::string_view value = line.substr(first);
  const auto letter = static_cast<unsigned char>(value[0]);
  return (std::isalpha(letter) != 0 || value[0] == '/' || value[0] == '.') &&
         !value.starts_with("true") && !value.starts_with("false");
}

}  // namespace

std::vector<TomlEntry> read_toml(const std::string& text, const std::string& name) {
  std::vector<TomlEntry> entries;
  try {
    flatten(entries, toml::parse(AsciiText(text, name).take(), name), "");
  } catch (const toml::parse_error& error) {
    const auto line = static_cast<int>(error.source().begin.line);
    SXT_FAIL(Config, name, ":", line, ": ", one_line(error.description()),
             lacks_quotes(line_of(text, line)) ? "; text needs quotes: key = \"value\"" : "");
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
  return entries;
}

}  // namespace sextant
