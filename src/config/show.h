#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"

namespace sextant {

struct Key;

// What `config show`, `config diff` and `config keys` print. Text ends with a newline; JSON is one
// line without one.

// Every key by section with its value and where it came from, aligned; then the notes.
std::string show_text(const ResolvedConfig& resolved);
// {"config": {section: {key: value}}, "origins": {"section.key": origin}, "notes": [...]}
std::string show_json(const ResolvedConfig& resolved);

struct Difference {
  std::string key, left, right;  // values as TOML writes them
  bool operator==(const Difference&) const = default;
};
std::vector<Difference> diff_configs(const Config& left, const Config& right);
// One aligned line per key: "optim.lr  0.0003 -> 0.001"; "no difference" when there is none.
std::string diff_text(const std::vector<Difference>& differences);
// {"differences": [{"key", "left", "right"}]}
std::string diff_json(const std::vector<Difference>& differences);

// The keys with `word` in their name or help, and the one that other programs call so; all for "".
std::vector<const Key*> keys_about(std::string_view word);
// Keys with what they accept, their default and their help, for people.
std::string keys_text(std::span<const Key* const> keys);
// All of them, and the presets at the end.
std::string keys_text();
// {"keys": [{"name", "accepts", "choices", "default", "when", "help"}], "presets": [names]}
std::string keys_json(std::span<const Key* const> keys);
// The reference page, docs/config.md.
std::string keys_markdown();

}  // namespace sextant
