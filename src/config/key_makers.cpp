#include "config/key_makers.h"

#include "base/error.h"
#include "base/parse.h"
#include "config/other_names.h"

namespace sextant {

std::string in_words(IntRange range) {
  return concat("an integer from ", range.low, " to ", range.high);
}

std::string in_words(FloatRange range) {
  return concat("a number from ", range.low, range.end == High::Excluded ? " to below " : " to ",
                range.high);
}

std::string any_of(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return out;
}

std::string check(const Value& value, IntRange range) {
  const int64_t* number = std::get_if<int64_t>(&value);
  if (number != nullptr && *number >= range.low && *number <= range.high) return "";
  return "takes " + in_words(range);
}

std::string check(const Value& value, FloatRange range) {
  const std::string problem = "takes " + in_words(range);
  double number = 0;
  if (const int64_t* whole = std::get_if<int64_t>(&value)) {
    number = static_cast<double>(*whole);
  } else if (const double* real = std::get_if<double>(&value)) {
    number = *real;
  } else {
    return problem;
  }
  const bool below = range.end == High::Excluded ? number < range.high : number <= range.high;
  return number >= range.low && below ? "" : problem;  // bounds are finite: no infinity, no NaN
}

std::string check_text(const Value& value) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return "takes text, in quotes";
  if (!is_utf8(*text)) return "takes UTF-8 text";
  for (const char ch : *text)
    if (static_cast<unsigned char>(ch) < 0x20 || ch == 0x7f)
      return "takes text without control characters";
  return "";
}

std::string check_choice(const Value& value, const std::vector<std::string>& names) {
  const std::string* text = std::get_if<std::string>(&value);
  const std::string_view other = text != nullptr ? value_for_other_name(*text, names) : "";
  if (!other.empty()) return concat("takes ", any_of(names), ", did you mean '", other, "'?");
  return "takes " + any_of(names) + (text != nullptr ? did_you_mean(*text, names) : "");
}

std::string check_bytes(const Value& value) {
  const int64_t* number = std::get_if<int64_t>(&value);
  const std::string* text = std::get_if<std::string>(&value);
  if (number != nullptr && *number >= 0) return "";
  if (text != nullptr && parse_bytes(*text)) return "";
  return "takes bytes, such as 8589934592 or \"8GiB\"";
}

int64_t bytes_of(const Value& value) {
  if (const int64_t* number = std::get_if<int64_t>(&value)) return *number;
  return parse_bytes(std::get<std::string>(value)).value();
}

Key make_key(std::string name, ValueType type, std::string accepts, std::string help,
             std::function<Value(const Config&)> get,
             std::function<std::string(Config&, const Value&)> set) {
  Key key{.name = std::move(name),
          .type = type,
          .accepts = std::move(accepts),
          .choices = {},
          .help = std::move(help),
          .fallback = to_text(get(Config{})),
          .when = "",
          .applies = [](const Config&) { return true; },
          .get = std::move(get),
          .set = std::move(set)};
  return key;
}

Key falls_back_to(std::string words, Key key) {
  key.fallback = std::move(words);
  return key;
}

Key only_when(std::string condition, std::function<bool(const Config&)> holds, Key key) {
  key.when = std::move(condition);
  key.applies = std::move(holds);
  return key;
}

}  // namespace sextant
