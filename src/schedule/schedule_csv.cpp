#include "schedule/schedule_csv.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "schedule/dependencies.h"
#include "schedule/print.h"

namespace sextant {
namespace {

constexpr int kMaxCount = 1 << 20;  // stages, micros

std::string cell(const Action& action) {
  return std::to_string(action.stage) + kind_name(action.kind) + std::to_string(action.micro);
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Reads cells and keeps line and column for error messages.
class Reader {
 public:
  explicit Reader(std::string_view where) : where_(where) {}

  Schedule read(std::string_view text) {
    std::vector<std::string> lines = split(text, '\n');
    while (!lines.empty() && trimmed(lines.back()).empty()) lines.pop_back();
    SXT_CHECK(!lines.empty(), Data, where_, ": empty; a schedule begins with name=...,stages=...");
    read_head(lines.front());
    for (line_ = 1; line_ < lines.size(); ++line_) read_rank(lines[line_]);
    line_ = 0, column_ = 0;
    if (out_.ranks.empty()) fail("no line of actions follows");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    SXT_FAIL(Data, where_, ":", line_ + 1, ", column ", column_ + 1, ": ", text);
  }

  void read_head(const std::string& line) {
    std::map<std::string, std::string> values;
    const std::vector<std::string> keys = {"name", "stages", "micros", "placement"};
    const std::vector<std::string> cells = split(line, ',');
    for (column_ = 0; column_ < cells.size(); ++column_) {
      const std::string_view text = trimmed(cells[column_]);
      const size_t equals = text.find('=');
      const std::string key(text.substr(0, equals));
      if (equals == std::string_view::npos || std::ranges::find(keys, key) == keys.end())
        fail(concat("'", text, "' is none of name=, stages=, micros=, placement="));
      if (!values.emplace(key, text.substr(equals + 1)).second) fail(key + " comes twice");
    }
    column_ = 0;
    for (const std::string& key : keys)
      if (!values.contains(key)) fail(key + "= is missing");
    out_.name = values["name"];
    out_.stages = number("stages", values["stages"]);
    out_.micros = number("micros", values["micros"]);
    out_.placement = placement(values["placement"]);
  }
  int number(const char* key, const std::string& text) const {
    const std::optional<int64_t> value = parse_int(text);
    if (!value || *value < 1 || *value > kMaxCount)
      fail(concat(key, "=", text, "; a number from 1 to ", kMaxCount));
    return static_cast<int>(*value);
  }
  Placement placement(const std::string& text) const {
    for (const Placement one : {Placement::Loop, Placement::V, Placement::Dual})
      if (text == placement_name(one)) return one;
    fail("placement=" + text + "; there are loop, v and dual");
  }

  void read_rank(const std::string& line) {
    out_.ranks.emplace_back();
    const std::vector<std::string> cells = split(line, ',');
    for (column_ = 0; column_ < cells.size(); ++column_) {
      const std::string_view text = trimmed(cells[column_]);
      if (text.empty()) continue;
      const std::vector<std::string> parts = split(text, '&');
      if (parts.size() > 2) fail(concat("'", text, "' joins more than two actions"));
      for (const std::string& part : parts) out_.ranks.back().push_back(action(trimmed(part)));
      if (parts.size() == 2) out_.ranks.back().end()[-2].joined = true;
    }
  }
  Action action(std::string_view text) const {
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const auto kind_begin = std::ranges::find_if_not(text, is_digit);
    const auto kind_end = std::find_if(kind_begin, text.end(), is_digit);
    const std::optional<Kind> kind = kind_named({kind_begin, kind_end});
    const std::optional<int64_t> stage = parse_int({text.begin(), kind_begin});
    const std::optional<int64_t> micro = parse_int({kind_end, text.end()});
    if (!kind || !stage || !micro)
      fail(concat("'", text, "' is no action; stage, kind and micro such as 0F3 or 1SendB0"));
    if (*stage >= out_.stages) fail(concat("'", text, "': stages are 0 ... ", out_.stages - 1));
    if (*micro >= out_.micros) fail(concat("'", text, "': micros are 0 ... ", out_.micros - 1));
    return {*kind, static_cast<int>(*stage), static_cast<int>(*micro)};
  }
  static std::optional<Kind> kind_named(std::string_view name) {
    for (int kind = 0; kind < kKinds; ++kind)
      if (name == kind_name(static_cast<Kind>(kind))) return static_cast<Kind>(kind);
    return std::nullopt;
  }

  std::string_view where_;
  size_t line_ = 0, column_ = 0;
  Schedule out_;
};

}  // namespace

std::string write_schedule_csv(const Schedule& schedule) {
  std::string out =
      concat("name=", schedule.name, ",stages=", schedule.stages, ",micros=", schedule.micros,
             ",placement=", placement_name(schedule.placement), "\n");
  for (const std::vector<Action>& todo : schedule.ranks) {
    for (size_t i = 0; i < todo.size(); ++i) {
      if (i > 0) out += todo[i - 1].joined ? "&" : ",";
      out += cell(todo[i]);
    }
    out += "\n";
  }
  return out;
}

Schedule read_schedule_csv(std::string_view text, std::string_view where) {
  return Reader(where).read(text);
}

}  // namespace sextant
