#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/value.h"

namespace sextant {

enum class ValueType { Bool, Int, Float, Text, Choice, Bytes };

// One setting: its name, what it accepts and how it is read from and written to a Config. The table
// of all of them drives files, overrides, messages, `config keys`, `--help` and docs/config.md.
struct Key {
  std::string name;  // "section.key"
  ValueType type;
  std::string accepts;               // "an integer from 1 to 2147483647", "adamw or sgd"
  std::vector<std::string> choices;  // Choice: the names that work in this build
  std::string help;
  std::string fallback;  // what it is when nobody sets it, in words
  std::string when;      // the condition under which it has an effect; "" means always
  std::function<bool(const Config&)> applies;  // whether `when` holds
  std::function<Value(const Config&)> get;
  // Stores the value and returns "", or stores nothing and returns what is wrong with it.
  std::function<std::string(Config&, const Value&)> set;
};

// Every key, by section in the order of Config.
const std::vector<Key>& config_keys();
// The key of this name, or nullptr.
const Key* find_key(std::string_view name);
std::vector<std::string> key_names();

// "unknown key optim.rl, did you mean 'optim.lr'?"
std::string unknown_key(std::string_view name);
// The key that somebody means who leaves out the section ("lr") or uses the name of another program
// ("learning_rate"); "" if there is none, or more than one.
std::string key_meant_by(std::string_view word);
// "model.layers = 0: takes an integer from 1 to 2147483647"
std::string bad_value(const Key& key, const Value& value, std::string_view problem);
// The text of an override as the value that the key expects, such as 12 or 3e-4; a string needs no
// quotes. Text that does not fit stays text, which `set` then refuses.
Value parse_value(const Key& key, std::string_view text);

}  // namespace sextant
