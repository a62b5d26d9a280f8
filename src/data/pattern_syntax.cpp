#include "data/pattern_syntax.h"

#include <cctype>

#include "base/error.h"
#include "data/newer_characters.h"

namespace sextant {
namespace {

// Unicode White_Space. PCRE2's own \s includes U+180E too.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr std::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{10ffff}";
constexpr std::string_view kHex = "0-9a-fA-F";

// A general category as members of a class.
std::string category(std::string_view name) {
  return "\\p{" + std::string(name) + "}" + newer_characters(name);
}

// Word characters of Oniguruma: alphabetic (with circled letters), marks, decimal digits,
// connectors, and the superscripts and fractions of Latin-1.
std::string word_characters() {
  return category("L") + category("M") + category("Nd") + category("Nl") + category("Pc") +
         "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
         "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
}

class Translator {
 public:
  Translator(std::string_view in, const std::string& what) : in_(in), what_(what) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        character_class();
      } else if (c == '(') {
        group();
      } else if (c == '}' && at_ + 1 < in_.size() && in_[at_ + 1] == '+') {
        refuse("{n,m}+");  // possessive in PCRE2, nested repeat in Ruby
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    SXT_FAIL(Data, what_, ": pattern uses ", construct, " at character ", at_,
             ", which is not supported");
  }
  void copy(size_t count) {
    SXT_CHECK(at_ + count <= in_.size(), Data, what_, ": pattern ends too early");
    out_ += in_.substr(at_, count);
    at_ += count;
  }
  // Writes `set` as a class, or as members of the open class; replaces the next `length` characters
  // of the pattern.
  void put_class(std::string_view set, size_t length = 2) {
    if (!in_class_) out_ += '[';
    out_ += set;
    if (!in_class_) out_ += ']';
    at_ += length;
  }
  void put_negated(std::string_view set, std::string_view name, size_t length = 2) {
    if (in_class_) refuse(std::string(name) + " inside [...]");
    out_ += "[^";
    out_ += set;
    out_ += ']';
    at_ += length;
  }

  void escape() {
    SXT_CHECK(at_ + 1 < in_.size(), Data, what_, ": pattern ends in a backslash");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's':
        return put_class(kSpace);
      case 'S':
        return put_class(kNotSpace);
      case 'w':
        return put_class(word_characters());
      case 'W':
        return put_negated(word_characters(), "\\W");
      case 'd':
        return put_class(category("Nd"));
      case 'D':
        return put_negated(category("Nd"), "\\D");
      case 'h':
        return put_class(kHex);
      case 'H':
        return put_negated(kHex, "\\H");
      case 'v':
        out_ += "\\x{b}";
        at_ += 2;
        return;
      case 'x':
        // \xHH is a byte in Oniguruma and a character in PCRE2: equal only in ASCII.
        if (at_ + 2 < in_.size() && in_[at_ + 2] != '{' && in_[at_ + 2] > '7')
          refuse("\\x beyond ASCII without braces");
        return copy(2);
      case 'u':
        return unicode_escape();
      case 'p':
      case 'P':
        return property();
      default:
        break;
    }
    static constexpr std::string_view kSame = "nrtfaeAzZ";
    static constexpr std::string_view kSameOutside = "bB";
    const bool is_punctuation = std::isalnum(static_cast<unsigned char>(c)) == 0;
    const bool same = is_punctuation || kSame.find(c) != std::string_view::npos ||
                      (!in_class_ && kSameOutside.find(c) != std::string_view::npos);
    if (!same) refuse(std::string{'\\', c});
    copy(2);
  }

  // \uHHHH
  void unicode_escape() {
    SXT_CHECK(at_ + 6 <= in_.size(), Data, what_, ": pattern ends inside \\u");
    const std::string_view digits = in_.substr(at_ + 2, 4);
    for (const char digit : digits) {
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) refuse("\\u without four digits");
    }
    out_.append("\\x{").append(digits).append("}");
    at_ += 6;
  }

  // \p{L}, \P{L}, \p{^L}. Only general categories, of one or two letters: scripts change with every
  // version of Unicode.
  void property() {
    const size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == std::string_view::npos)
      refuse("\\p without {name}");
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    bool negated = in_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const bool is_category = !name.empty() && name.size() <= 2 &&
                             std::string_view("LMNPSZC").find(name[0]) != std::string_view::npos;
    if (!is_category) refuse("a property that is not a general category");
    const std::string set = category(name);
    const size_t length = close + 1 - at_;
    if (negated) {
      put_negated(set, "a negated property", length);
    } else {
      put_class(set, length);
    }
  }

  void character_class() {
    copy(1);
    in_class_ = true;
    if (at_ < in_.size() && in_[at_] == '^') copy(1);
    if (at_ < in_.size() && in_[at_] == ']') copy(1);  // a member when it is first
    while (true) {
      SXT_CHECK(at_ < in_.size(), Data, what_, ": pattern has a [ without its ]");
      const char c = in_[at_];
      if (c == ']') break;
      if (c == '[') refuse("a class inside a class");
      if (in_.substr(at_).starts_with("&&")) refuse("&& inside [...]");
      if (c == '\\') {
        escape();
      } else {
        copy(1);
      }
    }
    copy(1);
    in_class_ = false;
  }

  void group() {
    static constexpr std::string_view kSame[] = {"(?:",  "(?=",  "(?!",  "(?>",
                                                 "(?<=", "(?<!", "(?i:", "(?-i:"};
    const std::string_view rest = in_.substr(at_);
    if (rest.starts_with("(*")) refuse("(*");
    if (!rest.starts_with("(?")) return copy(1);
    for (const std::string_view opening : kSame) {
      if (rest.starts_with(opening)) return copy(opening.size());
    }
    // Elsewhere, in Ruby the flag opens a group that includes the following alternatives.
    if (at_ == 0 && rest.starts_with("(?i)")) return copy(4);
    refuse(rest.substr(0, 3));
  }

  std::string_view in_;
  const std::string& what_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view regex, const std::string& what) {
  return Translator(regex, what).run();
}

}  // namespace sextant
