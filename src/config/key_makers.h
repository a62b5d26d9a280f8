#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/keys.h"

// The words in which key_table.cpp is written. A field is named by a generic lambda, which serves
// both Config and const Config: SXT_FIELD(model.layers).
#define SXT_FIELD(path)       \
  [](auto& config) -> auto& { \
    return config.path;       \
  }

namespace sextant {

inline constexpr int64_t kMaxSize = INT32_MAX;  // of one dimension
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxCount = 1'000'000'000'000;  // steps, batches

struct IntRange {
  int64_t low, high;
};
enum class High { Included, Excluded };
struct FloatRange {
  double low, high;
  High end = High::Included;
};
// A name of a choice; `missing` says what this build does instead when it cannot do this one.
template <class T>
struct Choice {
  std::string name;
  T value;
  std::string missing = "";
};

// What a key of this range accepts, in words.
std::string in_words(IntRange range);
std::string in_words(FloatRange range);
std::string any_of(const std::vector<std::string>& names);  // "a, b or c"
// What is wrong with a value, or "".
std::string check(const Value& value, IntRange range);
std::string check(const Value& value, FloatRange range);
std::string check_text(const Value& value);
std::string check_choice(const Value& value, const std::vector<std::string>& names);
std::string check_bytes(const Value& value);
int64_t bytes_of(const Value& value);  // after check_bytes found nothing

// A key that always applies, whose fallback is the default of its field.
Key make_key(std::string name, ValueType type, std::string accepts, std::string help,
             std::function<Value(const Config&)> get,
             std::function<std::string(Config&, const Value&)> set);
// The same key with other words for its fallback, or with a condition.
Key falls_back_to(std::string words, Key key);
Key only_when(std::string condition, std::function<bool(const Config&)> holds, Key key);

template <class Field>
Key int_key(std::string name, Field field, IntRange range, std::string help) {
  return make_key(
      std::move(name), ValueType::Int, in_words(range), std::move(help),
      [field](const Config& config) { return Value(static_cast<int64_t>(field(config))); },
      [field, range](Config& config, const Value& value) {
        const std::string problem = check(value, range);
        if (!problem.empty()) return problem;
        auto& target = field(config);
        target = static_cast<std::remove_reference_t<decltype(target)>>(std::get<int64_t>(value));
        return problem;
      });
}

template <class Field>
Key float_key(std::string name, Field field, FloatRange range, std::string help) {
  return make_key(
      std::move(name), ValueType::Float, in_words(range), std::move(help),
      [field](const Config& config) { return Value(field(config)); },
      [field, range](Config& config, const Value& value) {
        const std::string problem = check(value, range);
        if (!problem.empty()) return problem;
        const int64_t* whole = std::get_if<int64_t>(&value);
        field(config) = whole ? static_cast<double>(*whole) : std::get<double>(value);
        return problem;
      });
}

template <class Field>
Key bool_key(std::string name, Field field, std::string help) {
  return make_key(
      std::move(name), ValueType::Bool, "true or false", std::move(help),
      [field](const Config& config) { return Value(field(config)); },
      [field](Config& config, const Value& value) {
        if (!std::holds_alternative<bool>(value)) return std::string("takes true or false");
        field(config) = std::get<bool>(value);
        return std::string();
      });
}

template <class Field>
Key text_key(std::string name, Field field, std::string accepts, std::string help) {
  return make_key(
      std::move(name), ValueType::Text, std::move(accepts), std::move(help),
      [field](const Config& config) { return Value(field(config)); },
      [field](Config& config, const Value& value) {
        const std::string problem = check_text(value);
        if (problem.empty()) field(config) = std::get<std::string>(value);
        return problem;
      });
}

template <class Field>
Key bytes_key(std::string name, Field field, std::string help) {
  return make_key(
      std::move(name), ValueType::Bytes, "bytes, such as 8589934592 or 8GiB", std::move(help),
      [field](const Config& config) { return Value(field(config)); },
      [field](Config& config, const Value& value) {
        const std::string problem = check_bytes(value);
        if (problem.empty()) field(config) = bytes_of(value);
        return problem;
      });
}

template <class T, class Field>
Key choice_key(std::string name, Field field, std::vector<Choice<T>> choices, std::string help) {
  std::vector<std::string> names;
  for (const Choice<T>& choice : choices)
    if (choice.missing.empty()) names.push_back(choice.name);
  Key key = make_key(
      std::move(name), ValueType::Choice, any_of(names), std::move(help),
      [field, choices](const Config& config) {
        for (const Choice<T>& choice : choices)
          if (choice.value == field(config)) return Value(choice.name);
        return Value(std::string());
      },
      [field, choices, names](Config& config, const Value& value) {
        for (const Choice<T>& choice : choices) {
          if (value != Value(choice.name)) continue;
          if (choice.missing.empty()) field(config) = choice.value;
          return choice.missing;
        }
        return check_choice(value, names);
      });
  key.choices = names;
  return key;
}

// Sections of the table that have a file of their own.
void add_model_keys(std::vector<Key>& keys);
void add_parallel_keys(std::vector<Key>& keys);

}  // namespace sextant
