#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/storage.h"
#include "config/config.h"

namespace sextant {

// Where a value came from, for `config show`: "default", "preset gpt2-s", "run.toml:12",
// "command line", "derived".
using Origins = std::map<std::string, std::string>;  // key "section.name" -> origin

struct ResolvedConfig {
  Config config;
  Origins origins;
  std::vector<std::string> notes;  // one line each: inferred values, the batch equation
};

// Reads `path` ("" for none), the files it extends, then overrides ("section.key=value"; a string
// needs no quotes), fills presets and derived values, checks everything. Throws Error (Config or
// Data) whose one line has file, line, the value and what would be right.
ResolvedConfig load_config(Storage& storage, const std::string& path,
                           std::span<const std::string> overrides);

// The same for a TOML text that is already in memory; `name` stands for the file in messages.
ResolvedConfig parse_config(const std::string& text, const std::string& name,
                            std::span<const std::string> overrides);

// TOML that load_config reads back to the same Config.
std::string to_toml(const Config& config);

}  // namespace sextant
