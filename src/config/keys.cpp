#include "config/keys.h"

#include <algorithm>

#include "base/error.h"
#include "base/parse.h"
#include "config/other_names.h"

namespace sextant {
namespace {

std::string_view section_of(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

const Key* find_key(std::string_view name) {
  for (const Key& key : config_keys())
    if (key.name == name) return &key;
  return nullptr;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : config_keys()) names.push_back(key.name);
  return names;
}

std::string unknown_key(std::string_view name) {
  const std::string_view shown = name.substr(0, 80);
  const std::string head = concat("unknown key ", shown);
  if (const std::string_view ours = key_for_other_name(shown); !ours.empty())
    return concat(head, ", did you mean '", ours, "'?");
  std::vector<std::string> near;      // keys of the same section
  std::vector<std::string> same_end;  // keys of the same last part: a forgotten or wrong section
  for (const Key& key : config_keys()) {
    if (section_of(key.name) == section_of(shown)) near.push_back(key.name);
    if (last_part(key.name) == last_part(shown)) same_end.push_back(key.name);
  }
  if (!same_end.empty()) return head + did_you_mean(same_end.front(), same_end);
  if (near.empty()) return head + did_you_mean(shown, key_names());
  std::vector<std::string> parts;
  for (const std::string& key : near) parts.emplace_back(last_part(key));
  const std::optional<std::string> part = nearest_name(last_part(shown), parts);
  if (part) return concat(head, ", did you mean '", section_of(shown), ".", *part, "'?");
  return concat(head, ", [", section_of(shown), "] has ", join(parts, ", "));
}

std::string key_meant_by(std::string_view word) {
  if (const std::string_view ours = key_for_other_name(word); !ours.empty())
    return std::string(ours);
  std::string name(word), found;
  std::ranges::replace(name, '-', '_');
  for (const Key& key : config_keys()) {
    if (last_part(key.name) != name) continue;
    if (!found.empty()) return "";  // of several sections
    found = key.name;
  }
  return found;
}

std::string bad_value(const Key& key, const Value& value, std::string_view problem) {
  std::string text = to_short_text(value);
  // 1.0 where an integer is taken
  if (key.type == ValueType::Int && std::holds_alternative<double>(value) &&
      text.find_first_not_of("-0123456789") == std::string::npos)
    text += ".0";
  return concat(key.name, " = ", text, ": ", problem);
}

Value parse_value(const Key& key, std::string_view text) {
  if (key.type == ValueType::Bool) {
    if (const std::optional<bool> flag = parse_bool(text)) return *flag;
  }
  if (key.type == ValueType::Int || key.type == ValueType::Bytes) {
    if (const std::optional<int64_t> number = parse_int(text)) return *number;
  }
  if (key.type == ValueType::Float) {
    if (const std::optional<double> number = parse_double(text)) return *number;
  }
  if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"'))
    text = text.substr(1, text.size() - 2);
  return std::string(text);
}

}  // namespace sextant
