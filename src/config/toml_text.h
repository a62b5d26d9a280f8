#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"

namespace sextant {

// One `key = value` of a TOML text, or a table that holds none.
struct TomlEntry {
  std::string key;             // "section.name"; "name" outside of any section
  std::optional<Value> value;  // absent for what no setting can be; `kind` says what it is
  std::string kind;            // "an integer", "text", "an array", "an empty table", ...
  int line = 0;
};

// All entries in order of their lines. Throws Error(Config) as "<name>:<line>: ..." for text that
// is not TOML (a key given twice included), is larger than 1 MiB or nested deeper than a
// configuration can be.
std::vector<TomlEntry> read_toml(const std::string& text, const std::string& name);

}  // namespace sextant
