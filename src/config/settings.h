#pragma once
#include <map>
#include <string>

#include "config/value.h"

namespace sextant {

// What a person set: the last word of each key, with where it was said ("run.toml:12", "command
// line"). Every value has passed its key's own check.
struct Setting {
  Value value;
  std::string origin;
};

class Settings {
 public:
  void set(const std::string& key, Setting setting) { by_key_[key] = std::move(setting); }
  // The settings of `others` win.
  void add(const Settings& others) {
    for (const auto& [key, setting] : others.by_key_) by_key_[key] = setting;
  }
  // nullptr when nobody set it.
  const Setting* find(const std::string& key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &found->second;
  }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // "run.toml:12: " for the head of a message, or "" when nobody set it.
  std::string where(const std::string& key) const {
    const Setting* setting = find(key);
    return setting == nullptr ? "" : setting->origin + ": ";
  }

 private:
  std::map<std::string, Setting> by_key_;
};

}  // namespace sextant
